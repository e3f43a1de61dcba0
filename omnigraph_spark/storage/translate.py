"""The only place that looks at a Lance error: by type and text, into one of ours.

Lance raises ValueError, OSError and Arrow's errors for everything; what went wrong is in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph_spark.errors import OmnigraphError, StorageError

NOT_FOUND = "not_found"
#: A file is not what it should be: cut short, not Lance's. Trying again does not help.
PERMANENT = "permanent"
#: The rows did not allow what a filter does with them, or Lance cannot do it.
QUERY = "query"
#: Another writer was faster, and nothing of this one landed.
CONTENTION = "contention"

# Lance ends its messages with the place in its own source, which helps nobody here.
_RUST_PLACE = re.compile(r",? ?/(?:home/runner|rustc|root|github)[^\s,]*\.rs:\d+(?::\d+)?")
_PREFIXES = re.compile(
    r"^(?:External error|Invalid user input|LanceError\(IO\)|Schema error|Generic \S+ error"
    r"|Wrapped error|Not found(?=: Wrapped error)): "
)
# The statement is one that Lance made up around a filter; what the parser says of it is enough.
_STATEMENT = re.compile(r"^Error parsing statement: .* \(sql parser error: (.*)\)$")
# A server's answer, of which only code and message are told: the rest may repeat a session token.
_ANSWER = re.compile(r"(?:<\?xml[^>]*\?>)?\s*<Error\b.*?(?:</Error>|$)", re.DOTALL)
_TOLD = re.compile(r"<(Code|Message)>([^<]*)<")
_TOKEN = re.compile(r"(?i)(x-amz-security-token)\s*[:=]\s*[^\s,&]+")
# A request that was refused at once; after retries an earlier one may have been carried out.
_REFUSED = re.compile("necessary privileges|403 Forbidden|401 Unauthorized|AccessDenied")
_WRONG_KEYS = re.compile("400 Bad Request|ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch")
_RETRIED = re.compile(r"after [1-9]\d* retries")
# Answers to HEAD have no body, and so no word for the reason; this is how expired keys look then.
_NO_REASON = re.compile(r"(status code: 400 Bad Request):?$")
_PERHAPS = r"\1, without a reason: that is how servers refuse credentials that have expired"
# What Lance says of a file that is empty, cut short or not its own.
_BROKEN_FILE = re.compile("file size is too small|Invalid range|not appear to be a Lance file")


# The ref of a branch is there already, or the request that makes it was not answered.
_REF = re.compile("^Ref conflict error|/_refs/branches/")
# What Lance says when another commit came first: a merge in the one way, a commit in the other.
_LOST_RACE = re.compile("Too many concurrent writers|ommit conflict for version")


def lance_text(error: BaseException) -> str:
    """Return what a Lance error says in one line, without prefixes and source positions."""
    text = _TOKEN.sub(r"\1: …", _ANSWER.sub(_answer, str(error)))
    text = " ".join(_RUST_PLACE.sub("", text).split())
    while (shorter := _PREFIXES.sub("", text)) != text:
        text = shorter
    return _NO_REASON.sub(_PERHAPS, _STATEMENT.sub(r"\1", text.rstrip(".,")))


def _repeats_token(text: str) -> bool:
    """Tell whether a text may hold a session token, so that it must not be shown as a cause."""
    return bool(_ANSWER.search(text) or _TOKEN.search(text))


def _answer(found: re.Match[str]) -> str:
    return ": ".join(text for _, text in _TOLD.findall(found[0]))


def is_about_ref(error: StorageError) -> bool:
    """Tell whether making a branch failed at its last step, the ref: its folder is complete."""
    return bool(_REF.search(f"{error.detail} {error.target}"))


@contextmanager
def lance_errors(address: str) -> Iterator[None]:
    """Run Lance calls about one dataset; what they raise becomes a `StorageError`."""
    try:
        yield
    except OmnigraphError:
        # Some of ours are ValueErrors too; they already say what happened.
        raise
    except (OSError, ValueError, RuntimeError) as error:
        cause = None if _repeats_token(str(error)) else error
        raise StorageError(_kind(error), address, lance_text(error)) from cause
    except BaseException as error:
        # A panic inside Lance is no Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise StorageError(PERMANENT, address, f"Lance panicked: {lance_text(error)}") from error


def _kind(error: Exception) -> str:
    text = str(error)
    if _LOST_RACE.search(text):
        return CONTENTION
    if "ot found" in text:
        return NOT_FOUND
    if isinstance(error, PermissionError) or "ermission denied" in text:
        return "permission"
    if not _RETRIED.search(text):
        if _REFUSED.search(text):
            return "permission"
        if _WRONG_KEYS.search(text):
            return "configuration"
    if "applying filter expression" in text or "feature is not implemented" in text:
        return QUERY
    if _BROKEN_FILE.search(text):
        return PERMANENT
    return "unknown"
