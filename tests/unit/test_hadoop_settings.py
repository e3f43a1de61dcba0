"""Settings of Hadoop's S3 client, as a Spark session has them, in our names."""

from __future__ import annotations

import pytest

from omnigraph_spark.session.hadoop import translated


def test_every_setting_has_one_of_ours() -> None:
    conf = {
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.session.token": "token",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.committer.name": "magic",
        "spark.app.name": "x",
    }
    assert translated(conf, "b") == {
        "aws_access_key_id": "id",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "eu-west-1",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def test_nothing_is_made_up() -> None:
    assert translated({"spark.app.name": "x", "spark.hadoop.fs.s3a.endpoint": ""}, "b") == {}


@pytest.mark.parametrize(
    ("endpoint", "ssl", "address"),
    [
        ("minio:9000", None, "https://minio:9000"),
        ("minio:9000", "false", "http://minio:9000"),
        ("https://minio:9000", "false", "https://minio:9000"),
    ],
)
def test_an_endpoint_without_a_scheme_gets_one(
    endpoint: str, ssl: str | None, address: str
) -> None:
    conf = {"fs.s3a.endpoint": endpoint}
    if ssl is not None:
        conf["fs.s3a.connection.ssl.enabled"] = ssl
    found = translated(conf, "b")
    assert found["aws_endpoint"] == address
    assert ("allow_http" in found) == address.startswith("http://")


def test_what_is_said_of_one_bucket_wins_and_of_another_does_not_count() -> None:
    conf = {
        "spark.hadoop.fs.s3a.bucket.mine.endpoint": "https://mine",
        "spark.hadoop.fs.s3a.bucket.yours.endpoint": "https://yours",
        "spark.hadoop.fs.s3a.endpoint": "https://all",
    }
    assert translated(conf, "mine")["aws_endpoint"] == "https://mine"
    assert translated(conf, "other")["aws_endpoint"] == "https://all"


def test_what_is_set_in_the_running_session_wins() -> None:
    conf = {"spark.hadoop.fs.s3a.endpoint": "https://old", "fs.s3a.endpoint": "https://new"}
    assert translated(conf, "b")["aws_endpoint"] == "https://new"


@pytest.mark.parametrize("endpoint", ["s3.amazonaws.com", "https://s3.amazonaws.com"])
def test_the_server_that_hadoop_takes_for_aws_anywhere_is_aws_anywhere(endpoint: str) -> None:
    conf = {"fs.s3a.endpoint": endpoint, "fs.s3a.endpoint.region": "eu-west-1"}
    assert translated(conf, "b") == {"aws_region": "eu-west-1"}


def test_a_bucket_that_everybody_may_read_is_read_without_keys() -> None:
    name = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    conf = {"fs.s3a.aws.credentials.provider": name}
    assert translated(conf, "b") == {"aws_skip_signature": "true"}
    # Others may look for keys, so those that are there are not left out.
    with_keys = {**conf, "fs.s3a.access.key": "id", "fs.s3a.secret.key": "secret"}
    assert "aws_skip_signature" not in translated(with_keys, "b")
