"""`Picture`: an SVG that notebooks show and that can be saved; and the strokes it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

#: Lanes and arrows; each reads well on white and on near black.
COLORS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#14b8a6", "#eab308", "#ec4899")

# Pictures in one notebook share its page, and so their rules: names begin with og-.
_STYLE = """
.og-page{fill:#ffffff;stroke:#e2e5ea}.og-box{fill:#f8f9fb;stroke:#c3c9d4}
.og-head{fill:#e9edf5}.og-text{fill:#1c2330}.og-dim{fill:#68707f}.og-line{stroke:#8d96a6}
.og-tip{fill:#8d96a6}.og-hole{fill:#ffffff}.og-zebra{fill:#f5f6f9}
.og-sans{font-family:Inter,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
.og-mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
"""
_DARK = """@media (prefers-color-scheme:dark){
.og-page{fill:#14171d;stroke:#2b303a}.og-box{fill:#1c2029;stroke:#3d4452}
.og-head{fill:#272d3a}.og-text{fill:#e6e9ef}.og-dim{fill:#98a1b1}.og-line{stroke:#717b8d}
.og-tip{fill:#717b8d}.og-hole{fill:#14171d}.og-zebra{fill:#191d25}}
"""
_MARGIN = 16


@dataclass(frozen=True)
class Picture:
    """An SVG: shown by itself in notebooks, written to a file by `save`.

    >>> Picture("a dot", 10, 10, '<circle r="4"/>').svg[:4]
    '<svg'
    """

    title: str
    width: float
    height: float
    #: The strokes, from 0 to `width` and 0 to `height`.
    body: str

    @property
    def svg(self) -> str:
        """The text of the picture."""
        width, height = self.width + 2 * _MARGIN, self.height + 2 * _MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img" style="max-width:100%;height:auto">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}{_DARK}</style>"
            f'<rect class="og-page" x="0.5" y="0.5" width="{width - 1:g}" '
            f'height="{height - 1:g}" rx="10"/>'
            f'<g transform="translate({_MARGIN},{_MARGIN})">{self.body}</g></svg>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file and return its path."""
        file = Path(path)
        file.write_text(self.svg + "\n", encoding="utf-8")
        return file

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({self.title}, {self.width:g} x {self.height:g})"


def text(
    x: float,
    y: float,
    words: str,
    *,
    style: str = "og-text og-sans",
    size: float = 12,
    bold: bool = False,
    anchor: str = "start",
    fill: str | None = None,
) -> str:
    """Write words; `y` is their base line."""
    paint = "" if fill is None else f' style="fill:{fill}"'
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text class="{style}" x="{x:g}" y="{y:g}" font-size="{size:g}" '
        f'text-anchor="{anchor}"{weight}{paint}>{escape(words)}</text>'
    )


def rect(
    x: float, y: float, width: float, height: float, *, style: str = "og-box", more: str = ""
) -> str:
    """Draw a box with round corners."""
    return (
        f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="6" {more}/>'
    )


def path(points: str, *, color: str | None = None, width: float = 2, more: str = "") -> str:
    """Draw a line along SVG path commands."""
    paint = 'class="og-line"' if color is None else f'stroke="{color}"'
    return f'<path d="{points}" fill="none" {paint} stroke-width="{width:g}" {more}/>'


def wide(words: str, size: float = 12, bold: bool = False) -> float:
    """Guess how wide words are: no font is at hand, so rather a little too wide."""
    each = sum(0.72 if letter.isupper() or letter in "@mwMW→" else 0.56 for letter in words)
    return each * size * (1.06 if bold else 1)


def shortened(words: str, letters: int) -> str:
    """Cut long words.

    >>> shortened("feature/very-long", 10)
    'feature/v…'
    """
    return words if len(words) <= letters else words[: letters - 1] + "…"
