"""Settings of the object store that a Spark session has for Hadoop's own S3 client, `fs.s3a.*`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "fs.s3a."
#: The setting of Hadoop, and ours of the same meaning.
_NAMES = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
    "endpoint": "aws_endpoint",
}
#: Hadoop's class for buckets that everybody may read.
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_ANY_REGION = "s3.amazonaws.com"


def s3a_settings(spark: SparkSession, bucket: str) -> dict[str, str]:
    """Return what the session says of a bucket, in our names."""
    return translated(spark.conf.getAll, bucket)


def translated(conf: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Translate Hadoop's settings; those of one bucket win over those of all.

    >>> translated({"spark.hadoop.fs.s3a.endpoint": "minio:9000"}, "b")
    {'aws_endpoint': 'https://minio:9000'}
    """
    known: dict[str, str] = {}
    # In the order of who wins; `spark.hadoop.` is how a session is given Hadoop's settings.
    for prefix in (_PREFIX, f"{_PREFIX}bucket.{bucket}."):
        for before in ("spark.hadoop.", ""):
            start = before + prefix
            known |= {
                key.removeprefix(start): value
                for key, value in conf.items()
                if key.startswith(start) and value
            }
    found = {ours: known[theirs] for theirs, ours in _NAMES.items() if theirs in known}
    anonymous = _ANONYMOUS in known.get("aws.credentials.provider", "")
    if anonymous and "aws_access_key_id" not in found:
        found["aws_skip_signature"] = "true"
    if found.get("aws_endpoint", "").rpartition("/")[2] == _ANY_REGION:
        # Hadoop takes this one for AWS wherever the bucket is.
        del found["aws_endpoint"]
    plain = known.get("connection.ssl.enabled", "true").lower() == "false"
    if (endpoint := found.get("aws_endpoint")) is not None:
        if "://" not in endpoint:
            found["aws_endpoint"] = endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        if endpoint.startswith("http://"):
            found["allow_http"] = "true"
    if "path.style.access" in known:
        in_path = known["path.style.access"].lower() == "true"
        found["aws_virtual_hosted_style_request"] = "false" if in_path else "true"
    return found
