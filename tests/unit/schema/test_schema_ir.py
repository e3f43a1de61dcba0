"""The compiled schema: the engine's bytes, the engine's hash."""

from __future__ import annotations

import copy
import json
import tarfile
from typing import Any

import pytest

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.hashes import fnv1a_32, fnv1a_64
from omnigraph_spark.schema.ids import property_id, type_id
from omnigraph_spark.schema.ir import hash_of_ir_value, ir_compact, ir_hash, ir_pretty, to_ir
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.rust_text import debug_float, json_float, json_text
from tests.helpers.golden import GOLDEN, cases
from tests.helpers.schema_cases import GOOD

WORKED_EXAMPLE = """
node Person {
    name: String @key
    age: I32?
}
node Company { name: String @key }
edge WorksAt: Person -> Company { title: String? }
"""
WORKED_IR = (
    '{"ir_version":1,"interfaces":[],"nodes":[{"name":"Company","type_id":48283596,'
    '"annotations":[],"implements":[],"properties":[{"name":"name","prop_id":2975594761,'
    '"prop_type":{"scalar":"String","nullable":false,"list":false,"enum_values":null},'
    '"annotations":[{"name":"key","value":null}]}],"constraints":[{"Key":["name"]}]},'
    '{"name":"Person","type_id":3227219152,"annotations":[],"implements":[],"properties":['
    '{"name":"age","prop_id":3446138241,"prop_type":{"scalar":"I32","nullable":true,"list":false,'
    '"enum_values":null},"annotations":[]},{"name":"name","prop_id":1466009789,"prop_type":'
    '{"scalar":"String","nullable":false,"list":false,"enum_values":null},"annotations":['
    '{"name":"key","value":null}]}],"constraints":[{"Key":["name"]}]}],"edges":[{"name":"WorksAt",'
    '"type_id":2608831225,"from_type":"Person","to_type":"Company","cardinality":{"min":0,'
    '"max":null},"annotations":[],"properties":[{"name":"title","prop_id":2095520277,"prop_type":'
    '{"scalar":"String","nullable":true,"list":false,"enum_values":null},"annotations":[]}],'
    '"constraints":[]}]}'
)
WORKED_HASH = "sha256:d41f1023bdbd418e35d80b02f6b409899b8dedd9b5221353b47a152d114739f0"


def test_the_worked_example_of_the_format_compiles_to_its_bytes_and_hash() -> None:
    schema = parse_schema(WORKED_EXAMPLE)
    assert ir_compact(schema) == WORKED_IR
    assert ir_hash(schema) == WORKED_HASH


@pytest.mark.parametrize("case", cases())
def test_every_golden_graph_has_the_files_we_would_write(case: str) -> None:
    files = _schema_files(case)
    schema = parse_schema(files["_schema.pg"])
    recorded = json.loads(files["__schema_state.json"])["schema_ir_hash"]
    assert ir_pretty(schema) == files["_schema.ir.json"]
    assert ir_hash(schema) == recorded
    assert hash_of_ir_value(json.loads(files["_schema.ir.json"])) == recorded


def _schema_files(case: str) -> dict[str, str]:
    files = {}
    with tarfile.open(GOLDEN / case / "graph.tar.gz") as archive:
        for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
            member = archive.extractfile(f"graph/{name}")
            assert member is not None
            files[name] = member.read().decode()
    return files


@pytest.mark.parametrize("name", GOOD)
def test_a_file_read_back_has_the_hash_it_was_written_with(name: str) -> None:
    schema = parse_schema(GOOD[name])
    assert hash_of_ir_value(json.loads(ir_pretty(schema))) == ir_hash(schema)
    assert hash_of_ir_value(json.loads(ir_compact(schema))) == ir_hash(schema)


EVERYTHING = """
interface I { n: String? }
node A @foo("x", k="v", j="w") implements I {
    a: F64 s: String e: enum(a, b)? v: Vector(3)?
    @range(a, 1.0..2) @index(s) @check(s, "x") @unique(a, s) @key(s)
}
edge E: A -> A @card(0..5)
"""


def test_only_the_meaning_of_an_ir_file_counts_not_its_formatting() -> None:
    schema = parse_schema(EVERYTHING)
    value = to_ir(schema)

    def loosened(part: Any) -> Any:
        if isinstance(part, dict):
            fields = {
                key: loosened(item) for key, item in reversed(part.items()) if item is not None
            }
            unknown = {} if len(part) == 1 or part.keys() == {"j", "k"} else {"unknown": [1]}
            return fields | unknown
        return [loosened(item) for item in part] if isinstance(part, list) else part

    other = loosened(value)
    _range(other)["min"] = {"Float": 1}
    assert hash_of_ir_value(other) == ir_hash(schema)


@pytest.mark.parametrize(
    "change",
    [
        lambda ir: ir["nodes"][0]["constraints"].reverse(),
        lambda ir: ir["nodes"][0]["properties"].reverse(),
        lambda ir: ir["nodes"][0]["annotations"][0].pop("value"),
        lambda ir: ir["nodes"][0]["annotations"][0].pop("kwargs"),
        lambda ir: ir["edges"][0]["cardinality"].pop("max"),
        lambda ir: ir.update(ir_version=2),
        lambda ir: _range(ir).update(max={"Float": 2.0}),
    ],
)
def test_a_changed_meaning_changes_the_hash(change: Any) -> None:
    schema = parse_schema(EVERYTHING)
    value = copy.deepcopy(to_ir(schema))
    change(value)
    assert hash_of_ir_value(value) != ir_hash(schema)


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (lambda ir: ir.pop("interfaces"), "IR"),
        (lambda ir: ir.update(nodes={}), "IR.nodes"),
        (lambda ir: ir["nodes"].append("A"), "IR.nodes[1]"),
        (lambda ir: ir["edges"][0].update(annotations=None), "IR.edges[0].annotations"),
        (lambda ir: ir["edges"][0]["cardinality"].update(max=5.0), "IR.edges[0].cardinality.max"),
        (lambda ir: ir["edges"][0].update(type_id=True), "IR.edges[0].type_id"),
        (lambda ir: ir["edges"][0].update(type_id=2**32), "IR.edges[0].type_id"),
        (
            lambda ir: ir["nodes"][0]["constraints"].append({"Foo": []}),
            "IR.nodes[0].constraints[5]",
        ),
        (
            lambda ir: _range(ir).update(min={"Float": None}),
            "IR.nodes[0].constraints[3].Range.min.Float",
        ),
        (
            lambda ir: _range(ir).update(min={"Float": 10**400}),
            "IR.nodes[0].constraints[3].Range.min.Float",
        ),
        (
            lambda ir: _type(ir).update(scalar="Vector"),
            "IR.nodes[0].properties[0].prop_type.scalar",
        ),
        (lambda ir: _type(ir).update(list=0), "IR.nodes[0].properties[0].prop_type.list"),
        (
            lambda ir: ir["nodes"][0]["annotations"][0].update(kwargs=[]),
            "IR.nodes[0].annotations[0].kwargs",
        ),
    ],
)
def test_what_is_no_compiled_schema_is_refused_with_its_path(change: Any, subject: str) -> None:
    value = copy.deepcopy(to_ir(parse_schema(EVERYTHING)))
    change(value)
    with pytest.raises(SchemaRuleError) as caught:
        hash_of_ir_value(value)
    assert caught.value.subject == subject


def _range(ir: Any) -> Any:
    return next(c["Range"] for c in ir["nodes"][0]["constraints"] if "Range" in c)


def _type(ir: Any) -> Any:
    return ir["nodes"][0]["properties"][0]["prop_type"]


@pytest.mark.parametrize(
    ("value", "in_json", "in_debug"),
    [
        (0.0, "0.0", "0.0"),
        (-0.0, "-0.0", "-0.0"),
        (1.0, "1.0", "1.0"),
        (0.1, "0.1", "0.1"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "0.00001", "1e-5"),
        (0.000012, "0.000012", "1.2e-5"),
        (0.0000099, "9.9e-6", "9.9e-6"),
        (0.000001, "1e-6", "1e-6"),
        (-1.5e-7, "-1.5e-7", "-1.5e-7"),
        (9999999999999998.0, "9999999999999998.0", "9999999999999998.0"),
        (1e16, "1e+16", "1e16"),
        (1.5e20, "1.5e+20", "1.5e20"),
        (1e22, "1e+22", "1e22"),
        (1.7976931348623157e308, "1.7976931348623157e+308", "1.7976931348623157e308"),
        (5e-324, "5e-324", "5e-324"),
        (float("inf"), "null", "inf"),
    ],
)
def test_floats_are_written_as_the_engine_writes_them(
    value: float, in_json: str, in_debug: str
) -> None:
    assert json_float(value) == in_json
    assert debug_float(value) == in_debug


def test_texts_are_escaped_as_the_engine_escapes_them() -> None:
    written = json_text({"a": 'q" b\\ n\n r\r t\t \b \f \x00 \x1f \x7f é 😀 / \u2028'})
    assert written == (
        '{"a":"q\\" b\\\\ n\\n r\\r t\\t \\b \\f \\u0000 \\u001f \x7f é 😀 / \u2028"}'
    )


def test_empty_lists_stay_on_one_line() -> None:
    assert json_text({"a": [], "b": [1, {"c": None}]}, pretty=True) == (
        '{\n  "a": [],\n  "b": [\n    1,\n    {\n      "c": null\n    }\n  ]\n}'
    )


def test_hashes_are_fnv_1a() -> None:
    assert (fnv1a_32(b""), fnv1a_32(b"foobar")) == (0x811C9DC5, 0xBF9CF968)
    assert (fnv1a_64(b""), fnv1a_64(b"foobar")) == (0xCBF29CE484222325, 0x85944171F73967E8)


def test_ids_are_never_zero() -> None:
    assert fnv1a_32(b"node:G22igme") == fnv1a_32(b"node:A:z4fjfgs") == 0
    assert type_id("node", "G22igme") == property_id("node", "A", "z4fjfgs") == 1
