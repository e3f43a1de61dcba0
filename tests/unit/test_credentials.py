"""Keys that expire: fetched once, again before they run out, sent along, never printed."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from omnigraph_spark.errors import ConflictingOptionsError, InvalidOptionError, StorageError
from omnigraph_spark.storage import credentials as module
from omnigraph_spark.storage.credentials import Keys, chain_source, read_keys, user_source
from omnigraph_spark.storage.settings import StorageSettings

SECRET = "never-to-be-printed"
ANSWER: dict[str, Any] = {"access_key_id": "id", "secret_access_key": SECRET}


@pytest.fixture(autouse=True)
def nothing_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_fetched", {})


class Hook:
    """Fetches numbered keys that live for some seconds."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.calls = 0

    def __call__(self) -> dict[str, Any]:
        self.calls += 1
        until = None if self.seconds is None else time.time() + self.seconds
        return {**ANSWER, "access_key_id": f"id-{self.calls}", "expires_at": until}


def with_hook(hook: Any) -> StorageSettings:
    return StorageSettings.resolve({"credentials": hook}, {"AWS_ACCESS_KEY_ID": "of elsewhere"})


def test_keys_are_fetched_once_and_used_by_lance_and_boto3_alike() -> None:
    hook = Hook(None)
    settings = with_hook(hook)
    assert settings.for_lance("s3://b/g")["aws_access_key_id"] == "id-1"
    assert settings.for_boto3(settings.keys("s3://b/g"))["aws_access_key_id"] == "id-1"
    assert with_hook(hook).for_lance("s3://b/other")["aws_access_key_id"] == "id-1"
    assert hook.calls == 1


def test_nothing_is_fetched_for_a_local_graph() -> None:
    hook = Hook(None)
    assert with_hook(hook).for_lance("/data/social") == {}
    assert with_hook(hook).keys("/data/social") is None
    assert hook.calls == 0


@pytest.mark.parametrize(("passed", "calls"), [(3200.0, 1), (3400.0, 2), (4000.0, 2)])
def test_new_keys_are_fetched_minutes_before_the_old_ones_expire(
    passed: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, start = Hook(3600.0), time.time()
    settings = with_hook(hook)
    settings.keys("s3://b/g")
    monkeypatch.setattr(module.time, "time", lambda: start + passed)
    keys = settings.keys("s3://b/g")
    assert keys is not None
    assert (hook.calls, keys.access_key_id) == (calls, f"id-{calls}")


def test_keys_of_a_short_life_are_not_fetched_for_every_request() -> None:
    hook = Hook(20.0)
    settings = with_hook(hook)
    for _ in range(5):
        settings.keys("s3://b/g")
    assert hook.calls == 1


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER | {"session_token": "t", "expires_at": 2e9},
        {"AccessKeyId": "id", "SecretAccessKey": SECRET, "SessionToken": "t", "Expiration": 2e9},
        {
            "aws_access_key_id": "id",
            "aws_secret_access_key": SECRET,
            "aws_session_token": "t",
            "expiration": "2033-05-18T03:33:20+00:00",
        },
        ANSWER | {"token": "t", "expiry_time": dt.datetime(2033, 5, 18, 3, 33, 20, tzinfo=dt.UTC)},
        ANSWER | {"token": "t", "expires_at": dt.datetime(2033, 5, 18, 3, 33, 20)},
    ],
)
def test_answers_in_the_words_of_aws_and_in_ours_mean_the_same(answer: dict[str, Any]) -> None:
    keys = read_keys(answer, now=1e9)
    assert keys == Keys("id", SECRET, "t", 2e9)
    assert keys.refresh_at == 2e9 - 300


@pytest.mark.parametrize(
    "answer", [{}, {"access_key_id": "id"}, {"secret_access_key": SECRET}, None, [SECRET]]
)
def test_an_answer_without_keys_is_refused_and_not_repeated(answer: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"storage\.credentials") as refused:
        read_keys(answer, 0.0)
    assert SECRET not in str(refused.value)


def test_keys_that_have_expired_already_are_refused() -> None:
    with pytest.raises(StorageError, match="expired") as refused:
        read_keys(ANSWER | {"expires_at": 5.0}, now=6.0)
    assert refused.value.kind == "configuration"


def test_a_function_and_keys_together_are_refused() -> None:
    with pytest.raises(ConflictingOptionsError, match="credentials"):
        StorageSettings.resolve({"credentials": Hook(None), "token": "t"}, {})


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="a function that returns"):
        user_source(12)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="can import"):
        user_source("no.such.module:function").keys()


class Failing(Hook):
    """A hook that may be out of order for a while."""

    broken: Exception | None = None

    def __call__(self) -> dict[str, Any]:
        answer = super().__call__()
        if self.broken is not None:
            raise self.broken
        return answer


@pytest.mark.parametrize("broken", [RuntimeError(SECRET), KeyError("Token"), OSError(SECRET)])
def test_a_function_that_fails_is_a_failure_of_storage_and_its_text_is_not_repeated(
    broken: Exception,
) -> None:
    """So that whoever writes knows what it may mean; the cause is shown with it."""
    hook = Failing(None)
    hook.broken = broken
    with pytest.raises(StorageError, match=type(broken).__name__) as refused:
        with_hook(hook).keys("s3://b/g")
    assert refused.value.kind == "configuration"
    assert refused.value.__cause__ is broken
    assert SECRET not in str(refused.value)


def test_a_function_that_fails_for_a_while_stops_nobody_while_keys_are_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook, start = Failing(3600.0), time.time()
    settings = with_hook(hook)
    first = settings.keys("s3://b/g")
    hook.broken = TimeoutError("no route to the vault")
    monkeypatch.setattr(module.time, "time", lambda: start + 3500)
    for _ in range(10):
        # The same keys, so that clients and handles go on being shared.
        assert settings.keys("s3://b/g") == first
    # And not for every request.
    assert hook.calls == 2
    monkeypatch.setattr(module.time, "time", lambda: start + 3599.9)
    assert settings.keys("s3://b/g") == first
    monkeypatch.setattr(module.time, "time", lambda: start + 3601)
    with pytest.raises(StorageError, match="TimeoutError"):
        settings.keys("s3://b/g")
    hook.broken = None
    later = settings.keys("s3://b/g")
    assert later is not None
    assert later != first


# -- other processes ---------------------------------------------------------------------------


def test_keys_travel_with_their_source_and_are_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = with_hook("tests.unit.test_credentials:counted")
    COUNTED.clear()
    settings.keys("s3://b/g")
    sent = pickle.dumps(settings)
    monkeypatch.setattr(module, "_fetched", {})
    arrived = pickle.loads(sent)
    assert arrived == settings
    keys = arrived.keys("s3://b/g")
    assert keys is not None
    assert (keys.access_key_id, COUNTED) == ("id", [1])
    monkeypatch.setattr(module.time, "time", lambda: keys.expires_at)
    assert arrived.keys("s3://b/g").access_key_id == "id"
    assert COUNTED == [1, 1]


COUNTED: list[int] = []


def counted() -> dict[str, Any]:
    COUNTED.append(1)
    return {**ANSWER, "expires_at": 2e10 + len(COUNTED)}


def test_newer_keys_that_arrive_replace_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    source = user_source("x:y")
    monkeypatch.setitem(module._fetched, "x:y", Keys("new", SECRET, None, 2e9, 2e9))
    sent = pickle.dumps(source)
    module._fetched["x:y"] = Keys("old", SECRET, None, 1e9, 1e9)
    pickle.loads(sent)
    assert module._fetched["x:y"].access_key_id == "new"


def test_a_process_that_cannot_fetch_uses_what_it_was_sent_until_it_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("boto3.Session", NoKeys)
    source, now = chain_source(None), time.time()
    module._fetched[source.name] = Keys("sent", SECRET, None, now + 100, now - 1)
    assert source.keys().access_key_id == "sent"
    module._fetched[source.name] = Keys("sent", SECRET, None, now - 1, now - 1)
    with pytest.raises(StorageError, match="AWS_ACCESS_KEY_ID") as refused:
        source.keys()
    assert refused.value.kind == "configuration"


class NoKeys:
    def __init__(self, profile_name: str | None) -> None:
        assert profile_name is None

    def get_credentials(self) -> None:
        return None


def test_a_function_others_cannot_import_sends_its_keys_instead() -> None:
    settings = with_hook(Hook(None))
    assert settings.handed_on() == {
        "aws_access_key_id": "id-1",
        "aws_secret_access_key": SECRET,
    }
    named = with_hook("tests.unit.test_credentials:counted")
    assert named.handed_on() == {"credentials": "tests.unit.test_credentials:counted"}


# -- boto3's own search ------------------------------------------------------------------------


def test_keys_of_a_profile_are_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = of-work\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    settings = StorageSettings.resolve({"profile": "work"}, {})
    assert settings.for_lance("s3://b/g")["aws_access_key_id"] == "of-work"
    with pytest.raises(StorageError, match="nobody") as refused:
        StorageSettings.resolve({"profile": "nobody"}, {}).keys("s3://b/g")
    assert refused.value.kind == "configuration"


class InstanceRole(BaseHTTPRequestHandler):
    """What a machine of AWS is told of its role: keys with a number, good for ten minutes."""

    fetched = 0

    def do_PUT(self) -> None:
        self._answer("a token of the service")

    def do_GET(self) -> None:
        if self.path.endswith("/security-credentials/"):
            return self._answer("some-role")
        InstanceRole.fetched += 1
        until = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=10)
        keys = {"AccessKeyId": f"role-{self.fetched}", "SecretAccessKey": SECRET, "Token": "t"}
        return self._answer(
            json.dumps({"Code": "Success", **keys, "Expiration": f"{until:%Y-%m-%dT%H:%M:%SZ}"})
        )

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        return None


def test_keys_of_an_instance_role_are_found_and_renewed_before_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), InstanceRole)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nothing = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"}
    for name in nothing:
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    place = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", place)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    # boto3 asks once, for a second, which a busy machine may let pass.
    monkeypatch.setenv("AWS_METADATA_SERVICE_TIMEOUT", "30")
    settings = StorageSettings.resolve({}, {})
    try:
        first = settings.for_lance("s3://b/g")
        assert first["aws_secret_access_key"] == SECRET
        assert first["aws_session_token"] == "t"
        known = settings.keys("s3://b/g")
        assert known is not None
        assert known.expires_at is not None
        assert known.refresh_at is not None
        assert known.expires_at - known.refresh_at > 60
        assert settings.for_boto3(known)["aws_access_key_id"] == first["aws_access_key_id"]
        assert settings.for_lance("s3://b/g") == first
        # Some minutes later, before the old ones have expired.
        monkeypatch.setattr(module.time, "time", lambda: known.refresh_at)
        renewed = settings.for_lance("s3://b/g")
        assert renewed["aws_access_key_id"] != first["aws_access_key_id"]
    finally:
        server.shutdown()
        server.server_close()


def test_no_keys_anywhere_is_told_at_once(tmp_path: Path) -> None:
    code = (
        "import omnigraph_spark as og\n"
        "try: og.open('s3://bucket/g')\n"
        "except og.errors.StorageError as error: print(error)\n"
    )
    environ = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "r"}
    run = [sys.executable, "-c", code]
    paths = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(run, env=environ | paths, capture_output=True, text=True, timeout=60)
    assert "AWS_ACCESS_KEY_ID" in done.stdout, done.stderr


# -- secrets -----------------------------------------------------------------------------------


def test_keys_and_sources_print_no_key() -> None:
    settings = with_hook(Hook(None))
    keys = settings.keys("s3://b/g")
    for shown in (keys, settings, settings.source, [keys, settings]):
        assert SECRET not in f"{shown!r} {shown}"
        assert "id-1" not in f"{shown!r} {shown}"
