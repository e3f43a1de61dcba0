"""Procedures that make several SQL statements one commit."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.names import Ref
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.write import Write
from omnigraph_spark.writing.write_options import actor_or_user
from pyspark_omnigraph.held import OpenTransaction
from pyspark_omnigraph.jar_options import TRANSACTION
from pyspark_omnigraph.procedure import LONG, TEXT, Call, Parameter, Procedure, Row

_ENDED = {"commit_id": TEXT, "statements": LONG}


def _begin(call: Call, branch: str | None) -> Iterable[Row]:
    branch = call.branch if branch is None else branch
    if call.transaction is not None:
        advice = "CALL commit_transaction() or rollback_transaction() first"
        raise UnsupportedError("a transaction in a transaction", advice)
    base = call.reader.resolve(Ref.branch(branch))
    begun = OpenTransaction.begin(branch)
    call.session[TRANSACTION] = str(begun.folder)
    return [(begun.folder.name, base.commit.id)]


def _commit(call: Call) -> Iterable[Row]:
    transaction = _open(call, "commit_transaction")
    if transaction.is_over:
        raise UnsupportedError("committing what failed", "CALL rollback_transaction()")
    write, statements = _write(call, transaction), len(transaction.statements())
    try:
        commit = write.commit_or_abort()
    finally:
        # Whatever came of it: what was staged is published, recovered by others, or deleted.
        transaction.end()
    call.session[TRANSACTION] = None
    return [(None if commit is None else commit.id, statements)]


def _rollback(call: Call) -> Iterable[Row]:
    transaction = _open(call, "rollback_transaction")
    statements = len(transaction.statements())
    if not transaction.is_over:
        _write(call, transaction).abort()
        transaction.end()
    call.session[TRANSACTION] = None
    return [(None, statements)]


def _open(call: Call, name: str) -> OpenTransaction:
    if call.transaction is None:
        raise UnsupportedError(f"{name} without a transaction", "CALL begin_transaction() first")
    return OpenTransaction(call.transaction)


def _write(call: Call, transaction: OpenTransaction) -> Write:
    """Make one write of all statements, on the newest commit, unless what they read has moved."""
    statements = transaction.statements()
    expected = {key: at for held in statements for key, at in held.expected.items()}
    terms = WriteTerms(actor=actor_or_user(call.actor), expected=expected)
    write = Write(call.reader, transaction.branch, terms, mixed=True)
    for held in statements:
        held.give(write)
    return write


TRANSACTION_PROCEDURES = (
    Procedure(
        "begin_transaction",
        "Has the statements of this session wait for one commit; reads do not see them before.",
        _begin,
        {"transaction_id": TEXT, "base_commit_id": TEXT},
        (
            Parameter(
                "branch", TEXT, "The branch they write to; NULL is the one called on.", "NULL"
            ),
        ),
    ),
    Procedure(
        "commit_transaction",
        "Publishes what they did in one commit, or fails and publishes nothing.",
        _commit,
        _ENDED,
    ),
    Procedure("rollback_transaction", "Forgets what they did.", _rollback, _ENDED),
)
