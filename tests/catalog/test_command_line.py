"""The installed program, started as users start it: SQL from a pipe, and all that surrounds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph_spark as og
from omnigraph_spark.failpoints import BEFORE_PUBLISH
from tests.helpers.crashes import crashing

pytestmark = pytest.mark.slow

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
RECORDS = """\
{"type":"Person","data":{"name":"ada","age":36}}
{"type":"Person","data":{"name":"bob","age":41}}
{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}
"""


class Program:
    """`omnigraph-spark` in a folder of its own, where `python3` is no Python with our package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        wrong = folder / "bin" / "python3"
        wrong.parent.mkdir()
        wrong.write_text("#!/bin/sh\necho 'the wrong python3' >&2\nexit 9\n")
        wrong.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
        path = f"{wrong.parent}:{os.environ['PATH']}"
        self._environment = {**kept, "PATH": path, "TMPDIR": str(folder)}

    def run(self, *arguments: str, code: int = 0, given: str = "") -> tuple[str, str]:
        """Run a command, which ends with that code; return what it printed on both ways."""
        done = subprocess.run(
            [Path(sys.executable).with_name("omnigraph-spark"), *arguments],
            input=given,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:]
        return done.stdout, done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json")[0])


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "schema.pg").write_text(SCHEMA)
    (tmp_path / "people.jsonl").write_text(RECORDS)
    made = Program(tmp_path)
    made.run("init", "g", "--schema", "schema.pg")
    made.run("load", "g", "people.jsonl", "--mode", "append")
    return made


def test_sql_from_a_pipe_is_answered_and_ends_at_what_fails_with_its_exit_code(
    program: Program,
) -> None:
    """Workers are the program's own Python, whatever `python3` is."""
    statements = """
        -- What isn't asked: SELECT 1; nor this.
        SELECT p.name, q.age FROM og.nodes.Person p JOIN og.edges.Knows k ON k.src = p.id
          JOIN og.nodes.Person q ON q.id = k.dst;
        CALL og.system.create_branch('dev');
        INSERT INTO og.dev.nodes.Person (name, age) VALUES ('cy', 5);
        SELECT count(*) AS persons FROM og.dev.nodes.Person; -- that's cy
        SELECT id FROM range(1500);
        INSERT INTO og.dev.nodes.Person (name, age) VALUES ('cy', 6);
        SELECT 'never asked';
    """
    out, err = program.run("sql", "g", "--json", given=statements, code=3)
    joined, branch, persons, *many = map(json.loads, out.splitlines())
    assert joined == {"name": "ada", "age": 41}
    assert branch["branch"] == "dev"
    assert persons == {"persons": 3}
    assert many == [{"id": number} for number in range(1500)]
    assert "[OMNIGRAPH_KEY_CONFLICT]" in err
    assert "'cy' exists already" in err
    assert "Traceback" not in err
    # What the statements did is there for the other commands.
    assert program.json("diff", "g", "main", "dev") == {
        "node:Person": {"added": 1, "removed": 0, "changed": 0}
    }


def test_a_graph_is_merged_recovered_optimized_and_exported(program: Program) -> None:
    graph = og.open(program.folder / "g")
    graph.create_branch("dev")
    with crashing(BEFORE_PUBLISH):
        graph.load_jsonl('{"type":"Person","data":{"name":"bob","age":50}}\n', mode="merge")
    [recovered] = program.json("recover", "g")
    assert recovered["kind"] == "RolledForward"
    more = program.folder / "more.jsonl"
    more.write_text('{"type":"Person","data":{"name":"bob","age":60}}\n')
    program.run("load", "g", "more.jsonl", "--mode", "merge", "--branch", "dev", "--actor", "ann")
    _, err = program.run("merge", "g", "dev", code=3)
    assert "DivergentUpdate on node:Person 'bob'" in err
    merged = program.json("merge", "g", "dev", "--resolve", "theirs")
    info = program.json("info", "g")
    assert (info["commit"], info["types"]["node:Person"]) == (merged["commit"]["id"], 2)
    optimized = program.json("optimize", "g")
    assert {each["type_key"] for each in optimized} >= {"edge:Knows", "node:Person"}
    assert program.json("export", "g", "out.jsonl") == {"edge:Knows": 1, "node:Person": 2}
    bob = '{"type":"Person","data":{"id":"bob","age":60,"name":"bob"}}'
    assert bob in (program.folder / "out.jsonl").read_text().splitlines()
    assert program.run("info", "nowhere", code=1)[1].startswith("[OMNIGRAPH_GRAPH_NOT_FOUND] ")
    program.run("export", "g", "out", "--format", "csv", code=2)


def test_the_demonstration_as_json_shows_every_step_with_sql_in_the_catalog(
    program: Program,
) -> None:
    steps = program.json("demo")
    assert all(step.keys() == {"step", "call", "printed"} for step in steps)
    shown = {step["call"]: step["printed"] for step in steps}
    assert "|apollo|2     |[London, Paris]|" in shown["… FROM og.nodes.Person …"]
    assert "DivergentUpdate" in shown['graph.merge("review")']
    assert "5 persons, bob is lead" in shown["graph.at(version=4), graph.at(commit=…)"]
    assert "recovered: " in shown["graph.recover()"]
    picture = Path(shown["graph.show_history().save(…)"].strip())
    assert picture.parent == program.folder
    assert "<svg" in picture.read_text(encoding="utf-8")
