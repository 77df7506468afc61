"""The addresses of packages, and of what is in them: ours, those of Quilt's own tools, and pages of the catalog."""

from typing import Literal
from urllib.parse import quote

LATEST = "latest"


def make_uri(bucket: str, package: str) -> str:
    return f"quilt://buckets/{quote(bucket, safe='')}/packages/{quote(package)}"


def make_contents_uri(bucket: str, package: str, revision: str, path: str, kind: Literal["file", "folder"]) -> str:
    """Return the URI of a folder or a file. That of a folder ends with a slash: a file can have the same name."""
    place = f"path={quote(path, safe='')}{'%2F' if kind == 'folder' else ''}&" if path else ""
    return f"{make_uri(bucket, package)}/contents?{place}revision={revision}"


def make_quilt_uri(bucket: str, package: str, revision: str, path: str = "") -> str:
    """Return the URI that Quilt's own tools take."""
    place = f"&path={quote(path, safe='')}" if path else ""
    return f"quilt+s3://{bucket}#package={package}@{revision}{place}"


def link(catalog_url: str | None, bucket: str, package: str, revision: str = LATEST) -> str | None:
    """Return the page in the catalog; None if no catalog is configured."""
    if catalog_url is None:
        return None
    return f"{catalog_url}/b/{quote(bucket, safe='')}/packages/{quote(package)}/tree/{quote(revision, safe='')}"
