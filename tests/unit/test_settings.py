"""Object-store settings: options win over the environment, and no secret is ever printed."""

from __future__ import annotations

import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import boto3
import botocore
import lance
import pytest

from omnigraph_spark.errors import ConflictingOptionsError, InvalidOptionError, StorageError
from omnigraph_spark.storage.credentials import chain_source
from omnigraph_spark.storage.settings import StorageSettings

SECRET = "wJalrXUtnFEMI"


def resolve(given: dict[str, str] | None = None, /, **environ: str) -> StorageSettings:
    return StorageSettings.resolve(given, environ)


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("AWS_REGION", "aws_region"),
        ("AWS_DEFAULT_REGION", "aws_region"),
        ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
        ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
        ("AWS_SESSION_TOKEN", "aws_session_token"),
        ("AWS_ENDPOINT_URL", "aws_endpoint"),
        ("AWS_ENDPOINT_URL_S3", "aws_endpoint"),
        ("AWS_ALLOW_HTTP", "allow_http"),
    ],
)
def test_each_aws_variable_becomes_a_setting_of_lance(variable: str, setting: str) -> None:
    assert resolve(**{variable: "x"}).known == {setting: "x"}


def test_nothing_given_and_nothing_in_the_environment_is_nothing() -> None:
    assert resolve().known == {}
    assert resolve(HOME="/home/x").known == {}
    assert resolve().for_lance("/data/social") == {}


def test_an_empty_variable_counts_as_absent() -> None:
    assert resolve(AWS_REGION="", AWS_DEFAULT_REGION="eu-west-1").known == {
        "aws_region": "eu-west-1"
    }


def test_the_more_specific_variable_wins() -> None:
    settings = resolve(
        AWS_REGION="eu-west-1",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_ENDPOINT_URL="http://any",
        AWS_ENDPOINT_URL_S3="http://s3",
    )
    assert settings.known == {"aws_region": "eu-west-1", "aws_endpoint": "http://s3"}


@pytest.mark.parametrize(
    ("spelling", "setting"),
    [
        ("aws_region", "aws_region"),
        ("region", "aws_region"),
        ("REGION", "aws_region"),
        ("access_key_id", "aws_access_key_id"),
        ("secret_access_key", "aws_secret_access_key"),
        ("session_token", "aws_session_token"),
        ("token", "aws_session_token"),
        ("aws_token", "aws_session_token"),
        ("endpoint", "aws_endpoint"),
        ("endpoint_url", "aws_endpoint"),
        ("aws_endpoint_url", "aws_endpoint"),
        ("aws_allow_http", "allow_http"),
        ("virtual_hosted_style_request", "aws_virtual_hosted_style_request"),
    ],
)
def test_an_option_wins_over_the_environment_in_each_of_lance_s_spellings(
    spelling: str, setting: str
) -> None:
    settings = resolve(
        {spelling: "from the option"},
        AWS_REGION="env",
        AWS_ACCESS_KEY_ID="env",
        AWS_SECRET_ACCESS_KEY="env",
        AWS_SESSION_TOKEN="env",
        AWS_ENDPOINT_URL="env",
        AWS_ALLOW_HTTP="env",
        AWS_S3_FORCE_PATH_STYLE="true",
    )
    known = settings.known
    assert known[setting] == "from the option"
    assert [key for key, value in known.items() if value == "from the option"] == [setting]


def test_two_spellings_of_one_setting_must_agree_and_their_values_are_not_shown() -> None:
    with pytest.raises(ConflictingOptionsError, match="'Token' and 'session_token'") as refused:
        resolve({"Token": SECRET, "session_token": "other"})
    assert SECRET not in str(refused.value)
    assert resolve({"token": "t", "session_token": "t"}).known == {"aws_session_token": "t"}


def test_a_setting_lance_knows_and_we_do_not_passes_through() -> None:
    assert resolve({"Proxy_URL": "http://Proxy"}).known == {"proxy_url": "http://Proxy"}


def test_only_what_the_caller_gave_is_handed_on_to_other_processes() -> None:
    settings = resolve({"endpoint": "http://s3"}, AWS_SECRET_ACCESS_KEY=SECRET)
    assert settings.given == (("aws_endpoint", "http://s3"),)


def test_given_settings_resolve_to_themselves_in_the_other_process() -> None:
    settings = resolve({"Endpoint": "http://s3", "token": "t"}, AWS_REGION="eu-west-1")
    assert resolve(dict(settings.given), AWS_REGION="eu-west-1") == settings


# -- boto3 -------------------------------------------------------------------------------------


def test_lance_and_boto3_get_the_same_settings() -> None:
    arguments = resolve(
        {"endpoint": "https://s3"},
        AWS_REGION="eu-west-1",
        AWS_ACCESS_KEY_ID="id",
        AWS_SECRET_ACCESS_KEY=SECRET,
        AWS_SESSION_TOKEN="t",
    ).for_boto3()
    del arguments["config"]
    assert arguments == {
        "region_name": "eu-west-1",
        "aws_access_key_id": "id",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "t",
        "endpoint_url": "https://s3",
    }


def test_what_is_not_set_is_left_to_boto3_s_own_search() -> None:
    arguments = resolve().for_boto3()
    del arguments["config"]
    assert set(arguments.values()) == {None}


@pytest.mark.parametrize(
    ("given", "environ", "style"),
    [
        ({}, {}, "auto"),
        ({"aws_virtual_hosted_style_request": "false"}, {}, "path"),
        ({"virtual_hosted_style_request": "FALSE"}, {}, "path"),
        ({"aws_virtual_hosted_style_request": "true"}, {}, "auto"),
        ({}, {"AWS_S3_FORCE_PATH_STYLE": "true"}, "path"),
        ({}, {"AWS_S3_FORCE_PATH_STYLE": "1"}, "path"),
        ({}, {"AWS_S3_FORCE_PATH_STYLE": "True"}, "path"),
        ({}, {"AWS_S3_FORCE_PATH_STYLE": "false"}, "auto"),
        ({}, {"AWS_S3_FORCE_PATH_STYLE": ""}, "auto"),
        (
            {"aws_virtual_hosted_style_request": "true"},
            {"AWS_S3_FORCE_PATH_STYLE": "true"},
            "auto",
        ),
    ],
)
def test_path_style_is_taken_from_lance_s_setting_or_the_variable(
    given: dict[str, str], environ: dict[str, str], style: str
) -> None:
    settings = StorageSettings.resolve(given, environ)
    assert settings.for_boto3()["config"].s3 == {"addressing_style": style}


@pytest.mark.parametrize(
    ("endpoint", "given", "style", "lance"),
    [
        ("https://s3", None, "auto", ("https://s3", None)),
        ("https://s3.own", "false", "path", ("https://s3.own", "false")),
        ("https://s3.own:90", "true", "virtual", ("https://bucket.s3.own:90", "true")),
        # There is no host `bucket.127.0.0.1`, and hardly one `bucket.minio`.
        ("https://127.0.0.1:90", "true", "auto", ("https://127.0.0.1:90", "false")),
        ("https://minio:90", "true", "auto", ("https://minio:90", "false")),
    ],
)
def test_lance_and_boto3_find_a_bucket_in_the_same_place(
    endpoint: str, given: str | None, style: str, lance: tuple[str, str | None]
) -> None:
    """Else Lance takes the first part of the path for the name of a bucket."""
    wanted = {} if given is None else {"aws_virtual_hosted_style_request": given}
    settings = resolve({"endpoint": endpoint, "access_key_id": "i", **wanted})
    assert settings.for_boto3()["config"].s3 == {"addressing_style": style}
    known = settings.for_lance("s3://bucket/g")
    assert (known["aws_endpoint"], known.get("aws_virtual_hosted_style_request")) == lance


def test_a_server_that_only_a_profile_names_is_not_looked_at_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 would go there, and Lance to AWS: control files here and rows there."""
    config = tmp_path / "config"
    config.write_text("[default]\nendpoint_url = http://127.0.0.1:1\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    settings = resolve({"access_key_id": "i", "secret_access_key": SECRET, "region": "eu-west-1"})
    client = boto3.Session().client("s3", **settings.for_boto3())
    assert client.meta.endpoint_url == "https://s3.eu-west-1.amazonaws.com"
    assert "aws_endpoint" not in settings.for_lance("s3://bucket/g")


def test_lance_gets_settings_for_buckets_only_and_with_bounded_patience() -> None:
    settings = resolve({"access_key_id": "id", "secret_access_key": SECRET, "region": "r"})
    assert settings.for_lance("/data/social") == {}
    assert settings.for_lance("s3://b/g") == {
        "aws_access_key_id": "id",
        "aws_secret_access_key": SECRET,
        "aws_region": "r",
        "client_max_retries": "20",
        "client_retry_timeout": "15",
        "connect_timeout": "3s",
        "read_timeout": "25s",
        "timeout": "30s",
        "lance_aimd_max_retries": "0",
    }
    reading = settings.for_lance("s3://b/g", reading=True)
    # Lance fetches four times what is not answered, and no more often.
    unanswered = int(reading["read_timeout"].removesuffix("s"))
    assert 4 * unanswered < 30
    assert int(reading["client_retry_timeout"]) < unanswered


def test_patience_can_be_set_like_everything_else() -> None:
    given = {"access_key_id": "i", "secret_access_key": "s", "client_max_retries": "0"}
    settings = resolve(given)
    assert settings.for_lance("s3://b/g")["client_max_retries"] == "0"
    assert settings.for_boto3()["config"].retries["total_max_attempts"] == 1
    with pytest.raises(InvalidOptionError, match="client_max_retries"):
        resolve({**given, "client_max_retries": "often"}).for_boto3()


def test_a_server_of_one_s_own_needs_no_region() -> None:
    given = {"endpoint": "https://s3", "access_key_id": "i", "secret_access_key": "s"}
    settings = resolve(given)
    assert settings.for_lance("s3://b/g")["aws_region"] == "us-east-1"
    assert settings.for_boto3()["region_name"] == "us-east-1"


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("https://s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("https://s3-us-west-2.amazonaws.com/", "us-west-2"),
        ("https://s3.dualstack.ap-south-1.amazonaws.com", "ap-south-1"),
        ("https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://bucket.vpce-1a-2b.s3.us-gov-west-1.vpce.amazonaws.com", "us-gov-west-1"),
        ("https://s3.eu-central-1.amazonaws.com.mine.org", "us-east-1"),
        ("https://s3.amazonaws.com", "us-east-1"),
    ],
)
def test_a_server_of_aws_says_its_region(endpoint: str, region: str) -> None:
    settings = resolve({"endpoint": endpoint, "access_key_id": "i"})
    assert settings.for_lance("s3://b/g")["aws_region"] == region
    assert settings.for_boto3()["region_name"] == region


@pytest.mark.parametrize("endpoint", ["minio:9000", f"me:{SECRET}@minio:9000", "s3://minio"])
def test_an_endpoint_that_is_no_address_is_told_and_no_password_shown(endpoint: str) -> None:
    with pytest.raises(StorageError, match=r"minio.*https://") as refused:
        resolve({"endpoint": endpoint, "access_key_id": "i"}).for_boto3()
    assert refused.value.kind == "configuration"
    assert SECRET not in str(refused.value)


def test_plain_http_has_to_be_allowed() -> None:
    given = {"endpoint": "http://s3:9000", "access_key_id": "i"}
    with pytest.raises(StorageError, match=r"http://s3:9000.*AWS_ALLOW_HTTP"):
        resolve(given).for_boto3()
    assert resolve({**given, "allow_http": "true"}).for_boto3()["endpoint_url"]


def test_an_address_with_a_password_is_refused_because_clients_repeat_addresses() -> None:
    settings = resolve({"endpoint": f"https://me:{SECRET}@s3:9000", "access_key_id": "i"})
    for client in (settings.for_boto3, lambda: settings.for_lance("s3://b/g")):
        with pytest.raises(StorageError, match=r"'https://s3:9000'.*keys") as refused:
            client()
        assert refused.value.kind == "configuration"
        assert SECRET not in f"{refused.value} {refused.value!r}"
    # A local graph has nothing to do with it.
    assert settings.for_lance("/data/social") == {}


def test_a_public_bucket_is_read_without_keys() -> None:
    settings = resolve({"skip_signature": "true"})
    assert settings.keys("s3://b/g") is None
    assert settings.for_boto3()["config"].signature_version is botocore.UNSIGNED


# -- layers ------------------------------------------------------------------------------------


def test_options_win_over_the_session_and_the_session_over_the_environment() -> None:
    settings = StorageSettings.resolve(
        {"region": "of the option"},
        {"AWS_REGION": "e", "AWS_ENDPOINT_URL": "https://e", "AWS_ALLOW_HTTP": "true"},
        {"aws_region": "s", "aws_endpoint": "https://session"},
    )
    assert settings.known == {
        "aws_region": "of the option",
        "aws_endpoint": "https://session",
        "allow_http": "true",
    }
    # A process without the session needs what it said.
    assert settings.handed_on() == {
        "aws_region": "of the option",
        "aws_endpoint": "https://session",
    }


def test_keys_of_one_place_are_not_mixed_with_a_token_of_another() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "e", "AWS_SESSION_TOKEN": "e"}
    session = {"aws_access_key_id": "s", "aws_secret_access_key": "s"}
    assert StorageSettings.resolve({}, environ, session).known == session
    own = {"access_key_id": "o", "secret_access_key": "o"}
    assert StorageSettings.resolve(own, environ, session).known == {
        "aws_access_key_id": "o",
        "aws_secret_access_key": "o",
    }


class Refusing(BaseHTTPRequestHandler):
    """A server that writes down who asks for what, and refuses it."""

    asked: ClassVar[list[tuple[str, str, str]]] = []

    def do_GET(self) -> None:
        signed = self.headers.get("Authorization", "").partition("Credential=")[2].split("/")[0]
        token = self.headers.get("x-amz-security-token", "")
        self.asked.append((self.path.partition("?")[0], signed, token))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return None


def test_lance_does_what_it_is_told_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reads variables by itself, and would sign with keys of one place and another's token."""
    monkeypatch.setattr(Refusing, "asked", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    given = {"endpoint": endpoint, "allow_http": "true", "client_max_retries": "0"}
    for name in ("AWS_SESSION_TOKEN", "AWS_TOKEN"):
        monkeypatch.setenv(name, "of the environment")
    for name in ("AWS_SKIP_SIGNATURE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    settings = StorageSettings.resolve(
        {**given, "access_key_id": "given", "secret_access_key": "given"}
    )
    try:
        with pytest.raises(ValueError, match="403"):
            lance.dataset("s3://bucket/g", storage_options=settings.for_lance("s3://bucket/g"))
    finally:
        server.shutdown()
        server.server_close()
    assert set(Refusing.asked) == {("/bucket", "given", "")}


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_boto3_goes_where_lance_goes_by_itself(variable: str) -> None:
    settings = resolve(**{variable: "https://s3.own", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"})
    arguments = settings.for_boto3()
    assert arguments["endpoint_url"] == "https://s3.own"
    assert arguments["config"].s3 == {"addressing_style": "virtual"}


def test_a_profile_given_as_an_option_wins_over_keys_in_the_environment() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "e"}
    settings = StorageSettings.resolve({"profile": "work"}, environ)
    assert settings.known == {"aws_profile": "work"}
    assert settings.source == chain_source("work")
    assert StorageSettings.resolve({}, {**environ, "AWS_PROFILE": "work"}).source is None


def test_lance_is_told_of_path_style_too() -> None:
    settings = resolve(AWS_S3_FORCE_PATH_STYLE="true")
    assert settings.known == {"aws_virtual_hosted_style_request": "false"}


# -- secrets, keys of caches -------------------------------------------------------------------


def test_no_value_is_printed_only_the_names_of_settings() -> None:
    settings = resolve(
        {"aws_secret_access_key": SECRET, "token": SECRET, "endpoint": f"http://{SECRET}@s3"},
        AWS_ACCESS_KEY_ID=SECRET,
    )
    for text in (repr(settings), str(settings), f"{settings}", repr((settings,))):
        assert SECRET not in text
        assert "aws_secret_access_key" in text


def test_equal_settings_share_clients_and_handles_and_others_do_not() -> None:
    one = resolve({"region": "a", "token": "t"})
    same = resolve({"token": "t", "AWS_REGION": "a"})
    assert one == same
    assert hash(one) == hash(same)
    assert one != resolve({"region": "b", "token": "t"})


def test_settings_survive_the_way_to_another_process() -> None:
    settings = resolve({"aws_secret_access_key": SECRET})
    arrived = pickle.loads(pickle.dumps(settings))
    assert arrived == settings
    assert arrived.known == {"aws_secret_access_key": SECRET}
