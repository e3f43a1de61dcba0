"""The schema of a graph as a picture: boxes for node types, arrows for edge types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph_spark.pictures.layers import Box, columns_of, place
from omnigraph_spark.pictures.svg import COLORS, Picture, path, rect, shortened, text, wide
from omnigraph_spark.schema.model import Cardinality, EdgeType, GraphSchema, NodeType

_LINE = 19
_HEAD = 30
_LETTER = 7.0
#: Letters of a name, and lines of a box, before they are cut.
_LONGEST = 34
_MOST_LINES = 14


def draw_schema(schema: GraphSchema, rows: Mapping[str, int]) -> Picture:
    """Draw all types; `rows` says how many rows types have, by type key."""
    boxes: dict[str, Box] = {}
    lines: dict[str, list[tuple[str, str]]] = {}
    columns = columns_of(
        [node.name for node in schema.nodes], [(e.from_type, e.to_type) for e in schema.edges]
    )
    _spread(columns, {end for edge in schema.edges for end in (edge.from_type, edge.to_type)})
    for node in schema.nodes:
        key = str(node.type_key)
        lines[key] = _properties(node)
        boxes[key] = _sized(key, node.name, _counted(rows, key), lines[key], 2 * columns[node.name])
    links: list[tuple[str, str]] = []
    for edge in schema.edges:
        key, ends = str(edge.type_key), (f"node:{edge.from_type}", f"node:{edge.to_type}")
        lines[key] = _properties(edge)
        # The words of an arrow stand in the column after the first of its ends.
        column = min(boxes[end].column for end in ends) + 1
        boxes[key] = _sized(key, edge.name, _many(edge.cardinality), lines[key], column)
        links += [(end, key) for end in ends]
    if not boxes:
        return Picture("a schema without types", 200, 30, text(0, 20, "no types"))
    width, height = place(boxes, links, gap_x=46, gap_y=26)
    hues = {str(edge.type_key): COLORS[n % len(COLORS)] for n, edge in enumerate(schema.edges)}
    body = [_arrows(edge, boxes, hues[str(edge.type_key)]) for edge in schema.edges]
    for edge in schema.edges:
        key = str(edge.type_key)
        right = _many(edge.cardinality)
        body.append(_box(boxes[key], edge.name, right, lines[key], hues[key]))
    for node in schema.nodes:
        key = str(node.type_key)
        body.append(_box(boxes[key], node.name, _counted(rows, key), lines[key], None))
    title = f"{len(schema.nodes)} node types, {len(schema.edges)} edge types"
    return Picture(title, width, height, "".join(body))


def _spread(columns: dict[str, int], joined: set[str]) -> None:
    """Share types that no arrow touches out over all columns."""
    alone = [name for name in columns if name not in joined]
    # Side by side in a square where there is nothing else.
    count = max((columns[name] for name in joined), default=int(len(alone) ** 0.5)) + 1
    for number, name in enumerate(alone):
        columns[name] = number % count


def _properties(declared: NodeType | EdgeType) -> list[tuple[str, str]]:
    keys = declared.key if isinstance(declared, NodeType) else ()
    found = [
        (
            ("* " if prop.name in keys else "") + shortened(prop.name, _LONGEST),
            _type_text(prop.type),
        )
        for prop in declared.properties
    ]
    if len(found) > _MOST_LINES:
        found[_MOST_LINES - 1 :] = [(f"… {len(found) - _MOST_LINES + 1} more", "")]
    return found


def _type_text(type_: object) -> str:
    return shortened(str(type_), _LONGEST)


def _counted(rows: Mapping[str, int], key: str) -> str:
    return f"{rows[key]:,}" if key in rows else ""


def _many(cardinality: Cardinality) -> str:
    """Say how many edges a node may have, where that is limited.

    >>> _many(Cardinality(1, 1)), _many(Cardinality(0, None)), _many(Cardinality(1, None))
    ('1', '', '1..*')
    """
    least, most = cardinality.min, cardinality.max
    if (least, most) == (0, None):
        return ""
    return str(least) if least == most else f"{least}..{'*' if most is None else most}"


def _sized(key: str, name: str, right: str, lines: Sequence[tuple[str, str]], column: int) -> Box:
    head = wide(shortened(name, _LONGEST), 13, bold=True) + wide(right, 11) + 40
    inner = max((len(a) + len(b) + 3 for a, b in lines), default=0) * _LETTER + 20
    height = _HEAD + (len(lines) * _LINE + 8 if lines else 0)
    return Box(key, max(92, head, inner), height, column)


def _box(box: Box, name: str, right: str, lines: Sequence[tuple[str, str]], hue: str | None) -> str:
    x, y = box.x, box.y
    edge = "" if hue is None else f'style="stroke:{hue}"'
    drawn = [rect(x, y, box.width, box.height, more=edge)]
    top = f"M{x:g} {y + _HEAD:g}V{y + 6:g}q0 -6 6 -6H{x + box.width - 6:g}q6 0 6 6V{y + _HEAD:g}z"
    if hue is None:
        drawn.append(f'<path class="og-head" d="{top}"/>')
    elif lines:
        drawn.append(f'<path d="{top}" fill="{hue}" opacity="0.16"/>')
    drawn.append(rect(x, y, box.width, box.height, style="og-edge", more=_outline(hue)))
    words = shortened(name, _LONGEST)
    drawn.append(text(x + 10, y + 20, words, size=13, bold=True))
    if right:
        place = x + box.width - 10
        drawn.append(text(place, y + 20, right, style="og-dim og-sans", size=11, anchor="end"))
    for number, (prop, type_) in enumerate(lines):
        base = y + _HEAD + 17 + number * _LINE
        bold = prop.startswith("* ")
        drawn.append(
            text(
                x + 10, base, prop.removeprefix("* "), style="og-text og-mono", size=11.5, bold=bold
            )
        )
        end = x + box.width - 10
        drawn.append(text(end, base, type_, style="og-dim og-mono", size=11.5, anchor="end"))
    return "".join(drawn)


def _outline(hue: str | None) -> str:
    stroke = 'style="stroke:#98a1b1"' if hue is None else f'style="stroke:{hue}"'
    return f'fill="none" stroke-width="1" {stroke}'


def _arrows(edge: EdgeType, boxes: Mapping[str, Box], hue: str) -> str:
    """Draw an arrow from a node type to the words of an edge type and on to the other."""
    words = boxes[str(edge.type_key)]
    start, end = boxes[f"node:{edge.from_type}"], boxes[f"node:{edge.to_type}"]
    loop = start is end
    away = _line(start, words, hue, -9 if loop else 0)
    on = _line(end, words, hue, 9 if loop else 0, tip=True)
    return away + on


def _line(node: Box, words: Box, hue: str, shift: float, tip: bool = False) -> str:
    """Draw the line between a node type and the words of an edge type, bent at both ends."""
    left = node.column < words.column
    x = node.right if left else node.x
    to_x = words.x if left else words.right
    y = min(max(words.middle, node.y + 16), node.y + node.height - 14) + shift
    to_y = words.middle + shift
    bend = (x + to_x) / 2
    end = x + (9 if left else -9) if tip else x
    drawn = path(f"M{end:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}", color=hue)
    if not tip:
        return drawn + f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="{hue}"/>'
    wing = x + (11 if left else -11)
    return drawn + f'<path d="M{x:g} {y:g}L{wing:g} {y - 5:g}V{y + 5:g}z" fill="{hue}"/>'
