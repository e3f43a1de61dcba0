"""Processes that race: each runs the same rounds, and all start every round together."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError
from typing import Any, TypeVar

from omnigraph_spark.errors import OmnigraphError

_T = TypeVar("_T")
#: Far above what a race of two takes; a hanging racer fails its test instead of the whole run.
_PATIENCE_S = 60.0


class Racers:
    """Waiting processes. They are spawned, not forked, because Lance has threads."""

    def __init__(self, pipes: Sequence[Connection], start: Barrier, patience_s: float) -> None:
        self._pipes = pipes
        self._start = start
        self._patience_s = patience_s

    def run(self, work: Callable[..., _T], *args: tuple[Any, ...], rounds: int) -> list[list[_T]]:
        """Run ``work(*args[i], round)`` in process i and return the answers by process.

        `work` must be importable by name, from a module that is quick to import.
        """
        self._start.reset()
        for pipe, own in zip(self._pipes, args, strict=True):
            pipe.send((work, own, rounds))
        answers: list[list[_T]] = []
        for pipe in self._pipes:
            assert pipe.poll(self._patience_s), "a racer did not answer"
            answer = pipe.recv()
            assert isinstance(answer, list), answer
            answers.append(answer)
        return answers


@contextmanager
def waiting_racers(count: int = 2, patience_s: float = _PATIENCE_S) -> Iterator[Racers]:
    """Start processes and end them with the block; no work of theirs may take longer than that."""
    context = mp.get_context("spawn")
    start = context.Barrier(count)
    pipes = [context.Pipe() for _ in range(count)]
    processes = [
        context.Process(target=_serve, args=(theirs, start, patience_s), daemon=True)
        for _, theirs in pipes
    ]
    for process in processes:
        process.start()
    try:
        yield Racers([ours for ours, _ in pipes], start, patience_s)
    finally:
        for ours, theirs in pipes:
            ours.close()
            theirs.close()
        for process in processes:
            process.join(patience_s)
            process.close()


def _serve(pipe: Connection, start: Barrier, patience_s: float) -> None:
    while True:
        try:
            work, args, rounds = pipe.recv()
        except EOFError:
            return
        try:
            answers = []
            for number in range(rounds):
                start.wait(patience_s)
                answers.append(work(*args, number))
            pipe.send(answers)
        except BrokenBarrierError:
            pipe.send("another racer failed")
        except OmnigraphError as error:
            # Anything else ends this process, and the test that waits for it.
            start.abort()
            pipe.send(f"{type(error).__name__}: {error}")
