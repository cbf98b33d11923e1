"""Whether an object of S3 is not there, on a role that may list below a prefix only."""

from typing import Any, Final

from botocore.exceptions import ClientError

from agent_memory.aws.failures import REFUSED, error_code

GONE: Final = frozenset({"NoSuchKey", "NoSuchBucket", "404"})


def is_missing(client: Any, error: ClientError, *, bucket: str, key: str) -> bool:
    """Whether *error* says that the object is not there.

    S3 answers 403 for a missing key to whoever may list below a prefix only; a listing tells the two apart. Raises
    ClientError where that is refused as well."""
    code = error_code(error)
    if code not in REFUSED:
        return code in GONE
    listed = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return all(found["Key"] != key for found in listed.get("Contents", ()))
