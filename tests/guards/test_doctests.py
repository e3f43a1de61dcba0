"""Every example in a docstring does what it shows; only examples marked +SKIP are not run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import omnigraph_spark

MODULES = [
    "omnigraph_spark",
    *(m.name for m in pkgutil.walk_packages(omnigraph_spark.__path__, "omnigraph_spark.")),
]


def examples(name: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder().find(importlib.import_module(name))
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_do_what_they_show(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for test in examples(name):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_there_are_examples_that_run_and_few_that_are_skipped() -> None:
    run, skipped = 0, 0
    for name in MODULES:
        for test in examples(name):
            for example in test.examples:
                skip = example.options.get(doctest.SKIP, False)
                run, skipped = run + (not skip), skipped + skip
    assert run >= 10
    assert skipped <= run
