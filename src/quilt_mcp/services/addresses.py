"""Addresses that people copy, as URIs of this server: Quilt's own URIs, pages of the catalog, s3:// and S3 ARNs.

Quilt's documents describe its URIs: `quilt+s3://BUCKET#package=NAMESPACE/NAME@HASH&path=PATH`, with `:TAG` instead of
`@HASH`, and `&catalog=HOST`. The catalog's routes are public too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from urllib.parse import parse_qs, quote, unquote, urlsplit

from quilt_mcp.core.errors import InvalidURI, NotFound
from quilt_mcp.core.uris import Address
from quilt_mcp.services.objects import make_object_uri, make_objects_uri
from quilt_mcp.services.package_uris import LATEST, make_uri
from quilt_mcp.services.stack.callers import current_caller

BUCKET = r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])"
PACKAGE = r"(?P<package>[\w-]+/[\w-]+)"
QUILT_URI = re.compile(rf"quilt\+s3://{BUCKET}/?#(?P<fragment>.*)", re.DOTALL)
SPECIFIED = re.compile(rf"{PACKAGE}(?:[@:](?P<revision>[^@:]+))?")
S3_URI = re.compile(rf"s3://{BUCKET}(?:/(?P<key>.*))?", re.DOTALL)
S3_ARN = re.compile(rf"arn:aws(?:-[a-z-]+)?:s3:::{BUCKET}(?:/(?P<key>.*))?", re.DOTALL)
ACCESS_POINT = re.compile(
    r"arn:aws[a-z-]*:s3(?:-[a-z-]+)?:[a-z0-9-]*:[0-9]{12}:(?:accesspoint|outpost)[/:].+", re.DOTALL
)
VERSION = re.compile(r"\?versionId=([^&#]+)$")
STRAY = re.compile("%(?![0-9A-Fa-f]{2})")
"""A percent sign that encodes nothing, as in addresses that were not encoded."""

Found = Mapping[str, str]
Query = Mapping[str, list[str]]


def translate(address: str) -> Address | None:
    """Return the URI that an address means; None for a text that is none of these addresses.

    Raises:
        InvalidURI: it is one, and something is wrong with it.
    """
    scheme, colon, rest = address.partition(":")
    address = scheme.lower() + colon + rest
    if address.startswith("quilt+"):
        return _translate_quilt_uri(address)
    if match := S3_URI.fullmatch(address):
        key, version = _split_version(match["key"] or "")
        return Address(_make_object(match["bucket"], _decode(key), version))
    if match := S3_ARN.fullmatch(address):
        key = (match["key"] or "").removesuffix("*")
        return Address(_make_object(match["bucket"], key, None))
    if ACCESS_POINT.fullmatch(address):
        raise InvalidURI(
            "This is an access point, which this server reads by its alias.",
            details=address,
            suggested_actions=[
                "Read quilt://buckets/{alias}/objects: `aws s3control get-access-point` shows the alias (…-s3alias).",
                "A multi-region access point has no alias: use one of its buckets.",
            ],
        )
    if address.startswith(("https://", "http://")):
        return _translate_page(address)
    return None


GUESSES = {
    "athena://queries": "athena://query/history",
    "athena://query": "athena://query/history",
    "auth://login": "auth://status",
    "auth://me": "auth://status",
    "auth://user": "auth://status",
    "auth://whoami": "auth://status",
    "permissions://": "permissions://discover",
    "permissions://buckets": "permissions://discover",
    "quilt://packages": "quilt://search",
}
"""URIs that models try, and what there is instead."""


def guess(text: str) -> str | None:
    """Return the URI for a plain name of a bucket or a package, or for a URI that models try."""
    if text in GUESSES:
        return GUESSES[text]
    if re.fullmatch(PACKAGE, text):
        return f"quilt://search/{quote(text, safe='')}"
    return f"quilt://buckets/{text}" if re.fullmatch(BUCKET, text) and "://" not in text else None


def _translate_quilt_uri(address: str) -> Address:
    match = QUILT_URI.fullmatch(address)
    if match is None:
        raise _make_invalid(address, "It starts with quilt+s3:// and a bucket, and has a fragment: #package=…")
    given = parse_qs(STRAY.sub("%25", match["fragment"].replace("+", "%2B")), keep_blank_values=True)
    if repeated := [name for name, values in given.items() if len(values) > 1]:
        raise _make_invalid(address, f"It has {repeated[0]} more than once.")
    specified = SPECIFIED.fullmatch(given.get("package", [""])[0])
    if specified is None:
        raise _make_invalid(address, "Its package is NAMESPACE/NAME, or that with @HASH or with :TAG.")
    uri = _make_package(match["bucket"], specified["package"], specified["revision"], given.get("path", [""])[0])
    catalog = given.get("catalog", [""])[0]
    return Address(uri, partial(_check_catalog, catalog) if catalog else None)


def _translate_page(address: str) -> Address | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    path, query = parts.path, parse_qs(parts.query)
    inner = unquote(path.removeprefix("/uri/").removeprefix("/redir/"))
    uri = _translate_quilt_uri(inner).uri if inner.startswith("quilt+") else next(_find_pages(path, query), None)
    return Address(uri, partial(_check_catalog, parts.netloc)) if uri else None


def _find_pages(path: str, query: Query) -> Iterator[str]:
    for pattern, make in PAGES:
        if match := pattern.fullmatch(path):
            yield make({name: unquote(value or "") for name, value in match.groupdict().items()}, query)


def _make_tree(found: Found, query: Query) -> str:
    return _make_object(found["bucket"], found["path"], query.get("version", [None])[0])


def _make_compared(found: Found, _: Query) -> str:
    other = f"from={found['base']}&to={found['other']}" if found["other"] else f"to={found['base']}"
    return f"{make_uri(found['bucket'], found['package'])}/changes?{other}"


def _make_search(_: Found, query: Query) -> str:
    text = query.get("q", [""])[0]
    return f"quilt://search/{quote(text, safe='')}" if text else "quilt://search"


ROOT = rf"/b/{BUCKET}"
OF_PACKAGE = rf"{ROOT}/packages/{PACKAGE}"
PAGES: list[tuple[re.Pattern[str], Callable[[Found, Query], str]]] = [
    (re.compile("/?"), lambda *_: "quilt://buckets"),
    (re.compile("/search/?"), _make_search),
    (re.compile(f"{ROOT}/?"), lambda found, _: f"quilt://buckets/{found['bucket']}"),
    (re.compile(f"{ROOT}/search/?"), _make_search),
    (re.compile(f"{ROOT}/packages/?"), lambda found, _: f"quilt://buckets/{found['bucket']}/packages"),
    (re.compile(rf"{ROOT}/workflows(?:/[^/]*)?"), lambda found, _: f"metadata://workflows/{found['bucket']}"),
    (re.compile(rf"{ROOT}/tree/?(?P<path>.*)", re.DOTALL), _make_tree),
    (re.compile(f"{OF_PACKAGE}/?"), lambda found, _: make_uri(found["bucket"], found["package"])),
    (
        re.compile(f"{OF_PACKAGE}/revisions/?"),
        lambda found, _: f"{make_uri(found['bucket'], found['package'])}/revisions",
    ),
    (re.compile(rf"{OF_PACKAGE}/compare/(?P<base>\w+)(?:/(?P<other>\w+))?/?"), _make_compared),
    (
        re.compile(rf"{OF_PACKAGE}/tree/(?P<revision>[^/]+)(?:/(?P<path>.*))?", re.DOTALL),
        lambda found, _: _make_package(found["bucket"], found["package"], found["revision"], found["path"]),
    ),
]
"""The pages of the catalog, by their paths."""


def _make_package(bucket: str, package: str, revision: str | None, path: str) -> str:
    given = {"path": path, "revision": "" if revision == LATEST else revision}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items() if value)
    return make_uri(bucket, package) + ("/contents" if path else "") + (f"?{query}" if query else "")


def _make_object(bucket: str, key: str, version: str | None) -> str:
    if not key:
        return f"quilt://buckets/{bucket}"
    return make_objects_uri(bucket, key) if key.endswith("/") else make_object_uri(bucket, key, version)


def _split_version(key: str) -> tuple[str, str | None]:
    match = VERSION.search(key)
    return (key[: match.start()], unquote(match[1])) if match else (key, None)


def _decode(key: str) -> str:
    """Decode a key as Quilt's manifests encode it. A percent sign that encodes nothing stays, as AWS writes keys."""
    return unquote(STRAY.sub("%25", key))


def _check_catalog(named: str) -> None:
    """Check that an address belongs to the catalog of the caller.

    Raises:
        NotFound: it belongs to another one, or none is configured.
    """
    catalog = current_caller().login.stack.catalog_url
    own, asked = catalog and _find_host(catalog), _find_host(named)
    if own and own == asked:
        return
    raise NotFound(
        f"The address belongs to the catalog {asked or named[:100]!a}, which is not yours.",
        details=f"You use the catalog {own}." if own else "No catalog is configured.",
        suggested_actions=[
            "Read auth://status to see the stack that this server uses.",
            "To read another stack, configure and log in to its catalog first.",
        ],
    )


def _find_host(address: str) -> str | None:
    """Return the host of an address or a host, with its port if that is not the usual one."""
    try:
        parts = urlsplit(address if "//" in address else f"https://{address}")
        port = "" if parts.port in {None, 443} else f":{parts.port}"
    except ValueError:
        return None
    return f"{parts.hostname}{port}" if parts.hostname else None


def _make_invalid(address: str, details: str) -> InvalidURI:
    return InvalidURI(
        f"{address[:200]!a} is no URI of a package in Quilt.",
        details=details,
        suggested_actions=["Copy it again from the page of the package in the catalog, under Code, URI."],
    )
