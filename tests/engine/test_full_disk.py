"""A disk that is really full and one that really denies: nothing is lost, and the text says why."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import StorageError
from tests.helpers.crashes import write_social
from tests.helpers.denied import denied

_REPOSITORY = Path(__file__).parent.parent.parent
#: Runs where it alone sees a disk of two megabytes.
_FULL = """
import json, os, sys
import pyarrow as pa
import omnigraph_spark as og
from tests.helpers.crashes import write_social

root = f"{sys.argv[1]}/graph"
graph = write_social(root)
rows = [str(n) * 40 for n in range(100_000)]
try:
    graph.write(pa.table({"name": rows}), "Person", mode=sys.argv[2])
    told = "written"
except og.OmnigraphError as error:
    told = str(error)
seen = og.open(root).snapshot().rows("Person")
og.open(root).write(pa.table({"name": ["Zoe"]}), "Person")
print(json.dumps([told, seen, og.open(root).snapshot().rows("Person")]))
"""


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_disk_that_is_full_keeps_what_there_was_and_takes_the_next_write(
    mode: str, tmp_path: Path
) -> None:
    mount = f"mount -t tmpfs -o size=2m none {tmp_path}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("whoever runs this machine allows user namespaces: `unshare -rm` mounts a disk")
    command = f'{mount} && exec "$0" -W ignore -c "$1" {tmp_path} {mode}'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, sys.executable, _FULL],
        cwd=_REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told, seen, after = json.loads(done.stdout)
    assert "No space left on device" in told
    assert str(tmp_path / "graph") in told
    assert (seen, after) == (2, 3)


def test_a_disk_that_denies_is_read_and_says_so_to_who_writes() -> None:
    # Not below pytest's own folder: others may not even look into that.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = Path(name) / "graph"
        graph = write_social(root)
        folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
        with denied(*folders, mode=0o555):
            assert og.open(root, mode="r").snapshot().rows("Person") == 2
            with pytest.raises(StorageError, match=r"(?i)permission denied") as refused:
                graph.write(pa.table({"name": ["Zoe"]}), "Person")
            assert str(root) in str(refused.value)
        assert og.open(root).snapshot().rows("Person") == 2
        og.open(root).write(pa.table({"name": ["Zoe"]}), "Person")
