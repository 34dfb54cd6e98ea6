"""An S3-compatible store for the tests of files in one."""

from tests.object_store import server, stored, stored_in_s3

__all__ = ["server", "stored", "stored_in_s3"]
