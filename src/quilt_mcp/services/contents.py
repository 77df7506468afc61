"""quilt://buckets/{bucket}/packages/{namespace}/{name}/contents: the folders of a package, and what is in its files."""

import re
import unicodedata
from typing import TYPE_CHECKING, Literal, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.answers import ServiceResult
from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.services.package_uris import LATEST, link, make_contents_uri, make_quilt_uri, make_uri
from quilt_mcp.services.packages import OfPackage, ask_package, join_name, make_unknown_revision, resolve_revision
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.preview.answer import Content, show_file
from quilt_mcp.services.preview.stored_file import parse_key
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.graphql import Size

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

FULL_HASH = re.compile(r"[0-9a-f]{64}")
FOREVER = 86_400
"""How long a client may keep what cannot change, in seconds."""


class _Child(TypedDict):
    path: str
    size: Size | None
    physicalKey: NotRequired[str]


class _Directory(TypedDict):
    size: Size | None
    children: list[_Child]


class _Contents(TypedDict):
    """`file` is only requested for a path below the root."""

    hash: str
    dir: _Directory | None
    file: NotRequired[_Child | None]


class _WithContents(TypedDict):
    revision: _Contents | None


class InPackage(OfPackage):
    """A place in one revision of a package.

    Attributes:
        hash: the top hash of the revision.
        path: the path in the package; empty for its root.
        catalog_url: its page in the catalog; null if no catalog is configured.
        quilt_uri: the URI that Quilt's own tools take.
        package: the URI of the revision.
        folder: the URI of the folder that contains it; null for the root.
    """

    hash: str
    path: str
    catalog_url: str | None
    quilt_uri: str
    package: str
    folder: str | None


class EntryRow(TypedDict):
    """A file or a folder.

    Attributes:
        name: its name in the folder.
        kind: "file" or "folder".
        size: its size in bytes; of a folder, that of all files in it. Null if the stack does not say.
        physical_key: where the file is; null for a folder.
        uri: the URI that shows what is in it.
    """

    name: str
    kind: Literal["file", "folder"]
    size: int | None
    physical_key: str | None
    uri: str


class FolderAnswer(InPackage, Paged):
    """A page of one folder of a package.

    Attributes:
        kind: "folder".
        size: the size of all files in it in bytes; null if the stack does not say.
        entries: the files and folders of this page, sorted by name.
    """

    kind: Literal["folder"]
    size: int | None
    entries: list[EntryRow]


class FileAnswer(InPackage, Content):
    """One file of a package, with what is in it.

    Attributes:
        kind: "file".
        physical_key: where the file is.
        version: the version of the object that the revision names; null if it names none. Then the object can have been
            overwritten since the push.
        was_overwritten: true if the object has another size than the revision says; null if nothing says so.
    """

    kind: Literal["file"]
    physical_key: str
    version: str | None
    was_overwritten: Literal[True] | None


def package_contents_get(  # noqa: PLR0917 - the parameters of the URI
    bucket: str,
    namespace: str,
    name: str,
    path: str | None = None,
    revision: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> ServiceResult[FolderAnswer | FileAnswer]:
    """A folder or a file of a package.

    `path` is the folder or file, with %2F for slashes; by default, it is the root of the package. A folder has 50
    entries per page. Of a file, the answer has a page of text, the first rows of a table (CSV, TSV, JSON Lines,
    Parquet, Excel), the cells of a notebook, the texts of a PDF file or a picture, read with your role. Sends one
    GraphQL request, and reads a part of the file.
    """
    package, place = join_name(namespace, name), check_path(path)
    caller = current_caller()
    asked = resolve_revision(caller, bucket, package, revision or LATEST)
    read = _read(caller, bucket, package, asked, place)
    is_fixed = FULL_HASH.fullmatch(revision or "") is not None
    at = _locate(caller, bucket, package, read["hash"], place)
    file = read.get("file") if path and place and not path.endswith("/") else None
    if file is None and (folder := _find_folder(read, place)):
        scope = ("contents", caller.login.stack.registry_url, bucket, package, read["hash"], place)
        # A file and a folder can have the same name.
        page = cut_page(
            folder["children"],
            lambda entry: f"{find_name(entry['path'])}\0{'folder' if entry.get('physicalKey') is None else 'file'}",
            build=lambda entry: _describe_entry(entry, at),
            cursor=cursor,
            limit=limit,
            scope=scope,
        )
        listed: FolderAnswer = {
            **at,
            "kind": "folder",
            "size": folder["size"],
            "entries": page.rows,
            "count": page.total,
            "next_cursor": page.next_cursor,
        }
        return ServiceResult(listed, ttl_seconds=FOREVER if is_fixed else None)
    if file is None:
        raise _make_missing(caller, at)
    stored = parse_key(key := file.get("physicalKey", ""))
    content, attachment = show_file(caller.aws, stored, place, cursor=cursor, limit=limit)
    is_other = stored.version is None and file["size"] not in {None, content["size"]}
    shown: FileAnswer = {
        **at,
        "kind": "file",
        "physical_key": key,
        "version": stored.version,
        "was_overwritten": True if is_other else None,
        **content,
    }
    return ServiceResult(shown, attachment, FOREVER if is_fixed and stored.version else None)


def _read(caller: "Caller", bucket: str, package: str, revision: str, path: str) -> _Contents:
    """Ask the stack for a folder, and for a file of the same name."""
    given = {"revision": revision, "path": path, "isBelow": bool(path)}
    found = ask_package(caller, "packageContents", _WithContents, bucket, package, **given)
    if found["revision"] is None:
        raise make_unknown_revision(bucket, package, revision)
    return found["revision"]


def _find_folder(read: _Contents, path: str) -> _Directory | None:
    # Only the root can be empty: an empty directory is how the stack describes what is no folder.
    return read["dir"] if read["dir"] and (read["dir"]["children"] or not path) else None


def _locate(caller: "Caller", bucket: str, package: str, revision: str, path: str) -> InPackage:
    catalog = link(caller.login.stack.catalog_url, bucket, package, revision)
    return {
        "bucket": bucket,
        "name": package,
        "hash": revision,
        "path": path,
        "catalog_url": f"{catalog}/{quote(path)}" if catalog and path else catalog,
        "quilt_uri": make_quilt_uri(bucket, package, revision, path),
        "package": f"{make_uri(bucket, package)}?revision={revision}",
        "folder": make_contents_uri(bucket, package, revision, path.rpartition("/")[0], "folder") if path else None,
    }


def find_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def _describe_entry(entry: _Child, at: InPackage) -> EntryRow:
    key, path = entry.get("physicalKey"), entry["path"].rstrip("/")
    kind: Literal["file", "folder"] = "folder" if key is None else "file"
    return {
        "name": find_name(path),
        "kind": kind,
        "size": entry["size"],
        "physical_key": key,
        "uri": make_contents_uri(at["bucket"], at["name"], at["hash"], path, kind),
    }


def _make_missing(caller: "Caller", at: InPackage) -> NotFound:
    """Make the failure for a path that does not exist. It names the entry that looks the same, if there is one.

    Clients and models replace spaces and letters by others that look the same when they repeat a path.
    """
    path, package = at["path"], at["name"]
    parent, _, name = path.rpartition("/")
    near = _find_folder(_read(caller, at["bucket"], package, at["hash"], parent), parent) if path else None
    same = [
        row
        for row in (_describe_entry(entry, at) for entry in (near["children"] if near else ()))
        if unicodedata.normalize("NFKC", row["name"]) == unicodedata.normalize("NFKC", name)
    ]
    actions = [f"Read {at['package']}: `entries` is the number of its files, and `contents` is its root."]
    if len(same) == 1:
        actions.insert(0, f"Read {same[0]['uri']}: its name has other characters that look the same.")
    elif near:
        folder = at["folder"] if parent else f"{make_uri(at['bucket'], package)}/contents?revision={at['hash']}"
        actions.insert(0, f"Read {folder} for what the folder contains.")
    missing = f"There is no {path!a}" if path else "The Quilt stack shows no files"
    return NotFound(f"{missing} in this revision of {package}.", suggested_actions=actions)


def check_path(path: str | None) -> str:
    """Return a path in a package without slashes around it.

    Raises:
        InvalidTemplateVariable: no package has such a path.
    """
    parts = (path or "").strip("/").split("/")
    if parts != [""] and ("" in parts or not {".", ".."}.isdisjoint(parts)):
        raise InvalidTemplateVariable(
            f"{path!a} is not a path in a package.",
            details="It has names with slashes between them, such as data/raw; no name is empty, '.' or '..'.",
            suggested_actions=["Omit `path` for the root of the package."],
        )
    return "/".join(parts)
