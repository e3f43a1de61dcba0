"""The command line: what `info` prints, and an exit code and one line for what goes wrong."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner

import omnigraph_spark as og
from omnigraph_spark.cli import cli, main
from omnigraph_spark.cli.shared import sized
from omnigraph_spark.version import __version__
from tests.helpers.builder import GraphBuilder
from tests.helpers.denied import denied
from tests.helpers.terminal import on_terminal


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph with two types and the branches main and dev."""
    graph = GraphBuilder.create(
        tmp_path_factory.mktemp("cli") / "g",
        "node Person { name: String @key }\nedge Knows: Person -> Person",
    )
    graph.write({"node:Person": [{"name": f"p{number}"} for number in range(1200)]})
    graph.create_branch("dev")
    graph.write({"edge:Knows": [{"src": "p1", "dst": "p2"}]}, branch="dev")
    return str(graph.root)


def run(*arguments: str) -> str:
    """Run a command that must work, and return what it printed."""
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stderr == ""
    return done.stdout


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command that must not work; return its exit code and what it said on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.err


def size_of(root: str) -> int:
    return sum(file.stat().st_size for file in Path(root, "nodes").rglob("*.lance"))


def test_info_says_what_is_in_a_graph(root: str) -> None:
    commit = og.open(root).snapshot().commit
    size = sized(size_of(root))
    assert run("info", root).splitlines() == [
        f"{root}  branch main, manifest version 4",
        f"newest commit {commit.id}, {commit.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "branches: dev, main",
        f"size: {size}; health: 2 findings, see omnigraph-spark health",
        f"  {'edge:Knows':<32} {0:>14} {'0 B':>12}",
        f"  {'node:Person':<32} {'1,200':>14} {size:>12}",
    ]


def test_info_as_json_is_one_object_with_the_same_facts(root: str) -> None:
    commit = og.open(root).snapshot().commit
    told = json.loads(run("info", root, "--json"))
    assert [found.split(":")[0] for found in told.pop("health")] == ["missing_index"] * 2
    assert told == {
        "root": root,
        "branch": "main",
        "manifest_version": 4,
        "commit": commit.id,
        "created_at": commit.created_at.isoformat(),
        "branches": ["dev", "main"],
        "types": {"edge:Knows": 0, "node:Person": 1200},
        "size_bytes": size_of(root),
    }


def test_info_is_about_the_branch_that_was_named(root: str) -> None:
    on_dev = json.loads(run("info", root, "--branch", "dev", "--json"))
    assert on_dev["branch"] == "dev"
    assert on_dev["types"] == {"edge:Knows": 1, "node:Person": 1200}
    assert run("info", "--branch", "dev", root).startswith(f"{root}  branch dev, ")


def test_another_spelling_of_the_root_is_printed_as_the_canonical_one(root: str) -> None:
    assert json.loads(run("info", f"file://{root}/", "--json"))["root"] == root


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(flag: str) -> None:
    printed = run(flag)
    for command in cli.commands:
        assert f"\n  {command} " in printed
    assert "info" in cli.commands


@pytest.mark.parametrize("command", list(cli.commands))
def test_every_command_says_in_its_help_what_it_does(command: str) -> None:
    assert (cli.commands[command].help or "").strip()
    assert f"Usage: cli {command}" in click.unstyle(run(command, "--help"))


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == f"omnigraph-spark, version {__version__}\n"


# -- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{missing}"], "GRAPH_NOT_FOUND"),
        (["{root}", "--branch", "nope"], "BRANCH_NOT_FOUND"),
        (["{root}", "--branch", "../dev"], "NAME_INVALID"),
        (["hdfs://host/graph"], "UNSUPPORTED"),
        ([""], "NAME_INVALID"),
    ],
)
def test_an_error_of_ours_is_one_line_with_its_code_and_exit_code_1(
    arguments: list[str],
    code: str,
    root: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"root": root, "missing": tmp_path / "missing"}
    exit_code, said = fail(capsys, "info", *(word.format(**places) for word in arguments))
    assert exit_code == 1
    assert said.startswith(f"[OMNIGRAPH_{code}] ")
    assert said.count("\n") == 1
    assert said.endswith("\n")


def test_a_damaged_graph_is_one_line_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = GraphBuilder.create(tmp_path / "g", "node Person { name: String @key }")
    (graph.root / "_schema.pg").write_text("node Person {\n  broken\n}\n")
    exit_code, said = fail(capsys, "info", str(graph.root))
    assert exit_code == 1
    assert said.startswith("[OMNIGRAPH_SCHEMA_FILES] ")
    assert said.count("\n") == 1


def test_a_graph_that_may_not_be_read_is_one_line_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = GraphBuilder.create(tmp_path / "g", "node Person { name: String @key }")
    with denied(graph.root):
        exit_code, said = fail(capsys, "info", str(graph.root))
    assert exit_code == 1
    assert said.startswith("[OMNIGRAPH_STORAGE] permission ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["info", "{root}", "{root}"],
        ["info", "{root}", "--brnch", "dev"],
        ["info", "{root}", "--branch"],
        ["inof", "{root}"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_wrong(
    arguments: list[str], root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code, said = fail(capsys, *(word.format(root=root) for word in arguments))
    assert exit_code == 2
    assert said.splitlines()[-1].startswith("Error: ")


def test_a_command_that_is_done_ends_with_exit_code_0(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["info", root])
    assert ended.value.code == 0
    assert capsys.readouterr().err == ""


def test_the_installed_program_is_this_command_line(root: str) -> None:
    program = Path(sys.executable).with_name("omnigraph-spark")
    done = subprocess.run(
        [program, "info", f"{root}x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("[OMNIGRAPH_GRAPH_NOT_FOUND] ")
    assert done.stderr.count("\n") == 1


def test_a_graph_is_made_loaded_branched_and_exported_from_the_command_line(tmp_path: Path) -> None:
    root, schema = str(tmp_path / "g"), tmp_path / "schema.pg"
    schema.write_text("node Person { name: String @key }\nedge Knows: Person -> Person\n")
    records = tmp_path / "people.jsonl"
    records.write_text(
        '{"type":"Person","data":{"name":"ada"}}\n{"type":"Person","data":{"name":"bob"}}\n'
        '{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}\n'
    )
    assert run("init", root, "--schema", str(schema)) == f"created {root} with 2 types\n"
    loaded = json.loads(run("load", root, str(records), "--mode", "append", "--json"))
    assert loaded["changes"]["node:Person"]["inserted"] == 2
    run("branch", "create", root, "dev")
    assert run("branch", "list", root) == "dev\nmain\n"
    run("branch", "delete", root, "dev")
    assert len(json.loads(run("commits", root, "--json"))) == 2
    assert run("health", root).startswith("missing_index: column dst has no BTree index")
    assert run("recover", root) == "nothing was unfinished\n"
    run("export", root, str(tmp_path / "out.jsonl"))
    assert (tmp_path / "out.jsonl").read_text().splitlines() == [
        '{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}',
        '{"type":"Person","data":{"id":"ada","name":"ada"}}',
        '{"type":"Person","data":{"id":"bob","name":"bob"}}',
    ]


def test_a_conflict_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    og.create(tmp_path / "g", "node Person { name: String @key }")
    records = tmp_path / "people.jsonl"
    records.write_text('{"type":"Person","data":{"name":"ada"}}\n')
    load = ["load", str(tmp_path / "g"), str(records), "--mode", "append"]
    run(*load)
    with pytest.raises(SystemExit) as ended:
        main(load)
    assert ended.value.code == 3
    assert capsys.readouterr().err.startswith("[OMNIGRAPH_KEY_CONFLICT]")


def test_diff_counts_by_type_and_lists_rows(root: str) -> None:
    knows = {"added": 1, "removed": 0, "changed": 0}
    assert json.loads(run("diff", root, "main", "dev", "--json")) == {"edge:Knows": knows}
    assert run("diff", root, "main", "main").endswith("no difference\n")
    [line] = run("diff", root, "dev", "main", "--type", "Knows", "--rows").splitlines()
    row = json.loads(line)
    assert (row["change"], row["before"]["src"], row["after"]) == ("removed", "p1", None)
    assert "edge:Knows" in run("diff", root, "4", "dev")


def test_changes_prints_a_line_for_each_row(root: str) -> None:
    [line] = run("changes", root, "--branch", "dev", "--type", "Knows").splitlines()
    assert line.startswith("insert ")
    [line] = run("changes", root, "--branch", "dev", "--type", "Knows", "--json").splitlines()
    assert json.loads(line)["_change_type"] == "insert"
    assert run("changes", root, "--type", "Person", "--since", "4") == ""
    assert len(run("changes", root, "--type", "Person", "--net").splitlines()) == 1200


@pytest.fixture
def forked(tmp_path: Path) -> str:
    """A graph with a branch that can be merged, and one that cannot."""
    graph = og.create(tmp_path / "g", "node Person { name: String @key age: I32? }")
    for branch, age in (("main", 1), ("dev", 2), ("main", 3)):
        row = pa.table(
            {"name": ["ann" if branch == "main" else "bob"], "age": pa.array([age], pa.int32())}
        )
        graph.write(row, "Person", mode="merge", branch=branch, create_from="main")
    graph.write(pa.table({"name": ["bob"]}), "Person", branch="other", create_from="main")
    return graph.root


def test_merge_brings_a_branch_in_and_says_which_commit(forked: str) -> None:
    counts = {"inserted": 1, "updated": 0, "deleted": 0}
    plan = json.loads(run("merge", forked, "dev", "--dry-run", "--json"))
    assert (plan["outcome"], plan["counts"]) == ("three_way", {"node:Person": counts})
    assert "1 inserted" in run("merge", forked, "dev", "--dry-run")
    told = json.loads(run("merge", forked, "dev", "--actor", "max", "--json"))
    assert told["commit"]["id"] == og.open(forked).snapshot().commit.id
    assert told["commit"]["actor"] == "max"
    assert told["changes"]["node:Person"]["inserted"] == 1


def test_a_merge_with_conflicts_ends_with_3(
    forked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("merge", forked, "dev")
    code, said = fail(capsys, "merge", forked, "other")
    assert code == 3
    assert "DivergentInsert on node:Person 'bob'" in said
    for more in ((), ("--dry-run",)):
        done = CliRunner().invoke(cli, ["merge", forked, "other", "--json", *more])
        assert done.exit_code == 3
        [conflict] = json.loads(done.stdout)["conflicts"]
        assert (conflict["id"], json.loads(conflict["ours"])["age"]) == ("bob", 2)
    run("merge", forked, "other", "--resolve", "ours")
    assert og.open(forked).entity("Person", "bob") == {"id": "bob", "age": 2, "name": "bob"}


def test_snapshot_says_which_versions_are_read(root: str) -> None:
    told = json.loads(run("snapshot", root, "--branch", "dev", "--json"))
    assert told["entries"]["edge:Knows"]["dataset_branch"] == "dev"
    assert told["entries"]["node:Person"]["rows"] == 1200
    [knows, person] = run("snapshot", root).splitlines()
    assert knows.split("\t")[:2] == ["edge:Knows", "1"]
    assert person.split("\t")[3] == "1,200"


def test_optimize_and_repair_say_what_they_did(forked: str) -> None:
    done = {each["type_key"] for each in json.loads(run("optimize", forked, "--json"))}
    assert "node:Person" in done
    assert run("repair", forked) == "nothing was written past the graph\n"
    looked_at = json.loads(run("repair", forked, "--json"))
    assert {each["classification"] for each in looked_at} == {"no_drift"}


# -- on a terminal -----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 140])
def test_tables_fit_the_terminal_and_nothing_is_cut_off(root: str, columns: int) -> None:
    shown = on_terminal(columns, "branch", "list", root)
    assert max(map(len, shown.splitlines())) <= columns
    head = og.open(root).snapshot().commit.id
    assert head in re.sub(r"\s", "", shown) or columns < 100
    assert "own types" in shown or columns < 100
    assert "…" not in shown


@pytest.mark.parametrize("columns", [80, 140])
def test_what_takes_long_shows_how_much_is_done_and_leaves_nothing_behind(
    tmp_path: Path, columns: int
) -> None:
    graph, records = str(tmp_path / "g"), tmp_path / f"{'people' * 20}.jsonl"
    og.create(graph, "node Person { name: String @key }")
    lines = "".join(f'{{"type":"Person","data":{{"name":"p{n}"}}}}\n' for n in range(30_000))
    records.write_text(lines)
    loaded = on_terminal(columns, "load", graph, str(records), "--mode", "append")
    assert re.search(rf"loading .* {len(lines) / 1e6:.1f}/{len(lines) / 1e6:.1f} MB", loaded)
    assert loaded.rstrip().splitlines()[-1].split()[:3] == ["node:Person", "30,000", "inserted,"]
    exported = on_terminal(columns, "export", graph, str(tmp_path / f"{'out' * 40}.jsonl"))
    assert re.search("exporting: node:Person .* 30000/30000 rows", exported)
    assert exported.rstrip().splitlines()[-1].split() == ["node:Person", "30,000"]
    assert re.search(
        "optimizing: node:Person .* 1/1 types", on_terminal(columns, "optimize", graph)
    )


def test_the_name_of_what_is_at_work_is_cut_and_not_the_amount(tmp_path: Path) -> None:
    graph = str(tmp_path / "g")
    og.create(graph, f"node {'Name' * 20} {{ name: String @key }}")
    assert re.search(r"optimizing: no… ━+ 1/1 types", on_terminal(60, "optimize", graph))


def test_a_pipe_gets_answers_alone(tmp_path: Path) -> None:
    """`run` asserts that nothing else is printed."""
    graph, records = str(tmp_path / "g"), tmp_path / "people.jsonl.gz"
    og.create(graph, "node Person { name: String @key }")
    records.write_bytes(gzip.compress(b'{"type":"Person","data":{"name":"ada"}}\n'))
    assert "1 inserted" in run("load", graph, str(records), "--mode", "append")
    assert run("export", graph, f"{tmp_path}/out/").split() == ["node:Person", "1"]
    assert run("optimize", graph).startswith("node:Person\t")


def test_shells_can_complete_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_WORDS", "omnigraph-spark hea")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_OMNIGRAPH_SPARK_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == "plain,health\n"
