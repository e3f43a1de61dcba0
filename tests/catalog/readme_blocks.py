"""Runs README in the folder it is started in, as somebody does who types it: block after block.

What is named on the command line is the README. Python and SQL share a session, and print what
README says they print; then come the commands, each of which must end well.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from omnigraph_spark.cli import main
from omnigraph_spark.cli.statements import statements

_BLOCK = re.compile(
    r"^```(python|sql|console)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
#: A command with this package, without the remark after it.
_COMMAND = re.compile(r"^\$ omnigraph-spark (.+?)(?:\s+#.*)?$", re.MULTILINE)
#: What is about files that only its reader has, or fetches a jar; tests of their own run it.
_ELSEWHERE = ("nightly.sql", "--format delta")


def run(readme: str) -> Counter[str]:
    """Run the blocks of a README; return how many of each kind there were."""
    names: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    blocks = _BLOCK.findall(readme)
    for language, code, expected in blocks:
        printed = StringIO()
        with redirect_stdout(printed):
            if language == "python":
                exec(compile(code, "README.md", "exec"), names)
            elif language == "sql":
                for statement in statements([code]):
                    names["spark"].sql(statement).show()
        counts[language] += 1
        told = (code, printed.getvalue(), expected)
        assert not expected or printed.getvalue().strip() == expected.strip(), told
    names["spark"].stop()
    for language, code, _ in blocks:
        for line in _COMMAND.findall(code) if language == "console" else ():
            if not any(word in line for word in _ELSEWHERE):
                counts["command"] += 1
                _command(line)
    return counts


def _command(line: str) -> None:
    try:
        main(shlex.split(line))
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(f"{line} ends with {ended.code}") from ended


if __name__ == "__main__":
    print(dict(run(Path(sys.argv[1]).read_text(encoding="utf-8"))))
