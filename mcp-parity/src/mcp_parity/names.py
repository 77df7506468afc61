"""The names of the goldens."""

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

DIRECTORIES = ("data", "errors", "discovery")
LISTINGS = ("resources", "resource-templates", "tools", "prompts", "server", "get-resource")
_LONGEST_PART = 100
_PLAIN = re.compile(r"[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*")


class Names:
    """The names of the goldens of all rows. Each is different, also on a disk that ignores case."""

    def __init__(self, uris: Iterable[str]) -> None:
        self._paths: dict[str, str] = {}
        taken: dict[str, list[str]] = {}
        for uri in uris:
            taken.setdefault(_path(uri).casefold(), []).append(uri)
        for group in taken.values():
            for uri in group:
                suffix = f"~{_hash(uri)}" if len(set(group)) > 1 else ""
                self._paths[uri] = _path(uri) + suffix

    def data(self, uri: str, world: str) -> str:
        """Return the name of the golden of an answer with data. The home world is the empty text."""
        return f"data/{self._paths[uri]}{_suffix(world)}"

    def error(self, uri: str, world: str) -> str:
        """Return the name of the golden of a refusal."""
        return f"errors/{self._paths[uri]}{_suffix(world)}"

    def all(self, worlds: Iterable[str]) -> set[str]:
        """Return every name that a golden of a resource or a listing can have."""
        lists = {f"discovery/{name}{_suffix(world)}" for name in LISTINGS for world in worlds}
        return lists | {kind(uri, world) for kind in (self.data, self.error) for uri in self._paths for world in worlds}


def _suffix(world: str) -> str:
    return f"--{world}" if world else ""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _path(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    parts = map(_part, [scheme, *rest.split("/")] if separator else uri.lstrip("/").split("/"))
    return "/".join(parts if separator else ["-", *parts])


def _part(part: str) -> str:
    if _PLAIN.fullmatch(part) and "--" not in part and len(part) <= _LONGEST_PART:
        return part
    # a name that is `.`, `..`, empty or looks like that of a world is written with escapes
    safe = quote(part, safe="").replace("--", "-%2D").replace("~", "%7E")
    safe = re.sub(r"^\.|\.$|^-$", lambda found: f"%{ord(found[0]):X}", safe) or "%"
    return safe if len(safe) <= _LONGEST_PART else f"{safe[:_LONGEST_PART]}~{_hash(part)}"
