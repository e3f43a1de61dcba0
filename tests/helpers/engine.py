"""The released engine, run as a person would run it: one command, its output, its exit code."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parent.parent.parent
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

MISSING = (
    "the released engine is not installed: whoever runs these tests installs it with "
    "`cargo install omnigraph-cli --version 0.8.0 --locked` or sets OMNIGRAPH_BIN to its binary"
)


class EngineFailedError(AssertionError):
    """A command of the engine that had to work did not."""


@functools.cache
def engine_binary() -> Path | None:
    """Find the engine: OMNIGRAPH_BIN, then the shared folder beside the repository, then PATH."""
    if given := os.environ.get("OMNIGRAPH_BIN"):
        if not os.access(given, os.X_OK):
            raise FileNotFoundError(f"OMNIGRAPH_BIN={given} is not a program")
        return Path(given)
    shared = _REPOSITORY.parent / "shared" / "bin" / "omnigraph"
    if os.access(shared, os.X_OK):
        return shared
    on_path = shutil.which("omnigraph")
    return Path(on_path) if on_path else None


def run_engine(
    *args: str | Path, check: bool = False, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command and return what it said, without colours.

    The engine gets an empty home, so no configuration of the user takes part. The cache folder
    stays the user's: a packed engine unpacks itself there once. `settings` are more
    variables, those of an object store for example.
    """
    binary = engine_binary()
    if binary is None:
        raise FileNotFoundError(MISSING)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with tempfile.TemporaryDirectory(prefix="engine-home-") as home:
        done = subprocess.run(
            [str(binary), *map(str, args)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": home,
                "XDG_CACHE_HOME": cache,
                "RUST_BACKTRACE": "0",
                "RUST_LIB_BACKTRACE": "0",
                **(settings or {}),
            },
        )
    done.stdout, done.stderr = _ANSI.sub("", done.stdout), _ANSI.sub("", done.stderr)
    if check and done.returncode != 0:
        raise EngineFailedError(f"{' '.join(map(str, args))}: {done.stderr}")
    return done


def engine_json(*args: str | Path) -> Any:
    """Run a command that must work and return its JSON."""
    return json.loads(run_engine(*args, "--json", check=True).stdout)


def engine_export(root: Path, branch: str = "main") -> list[dict[str, Any]]:
    """Export a branch: one object per row, by type key and then id."""
    done = run_engine("export", root, "--branch", branch, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
