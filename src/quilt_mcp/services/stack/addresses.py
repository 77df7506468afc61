"""The addresses of a stack: whether a registry can belong to a catalog.

A registry gets the caller's token. So its address must be one that the owner of the catalog's domain controls. A
browser decides this with the public suffix list, which is too large for this. The rules below can refuse a registry
that is genuine. They can accept a wrong one only under a domain in which everyone can get a name and that is not in
the lists below.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

PORTS = {"http": 80, "https": 443}
MAX_HOST = 253  # characters, as in the DNS
NAME = re.compile(r"([a-z0-9_-]+\.)*(?!(\d+|0x[0-9a-f]*)$)[a-z0-9_-]+", re.ASCII)
"""The last label must not be a number: systems read such a name as an IP address."""
SHARED_DOMAINS = ("amazonaws.com", "cloudfront.net", "azurewebsites.net", "github.io", "herokuapp.com", "ngrok.io")
"""Domains in which everyone can get a name."""
SHARED_LABELS = frozenset({"ac", "co", "com", "edu", "gob", "gov", "gouv", "go", "mil", "ne", "net", "or", "org"})
"""Labels below which countries register names, as in co.uk, com.au and or.jp."""
PRIVATE_DOMAINS = frozenset({"corp", "home", "internal", "intranet", "lan", "local", "localdomain", "private", "test"})
"""Top-level domains that nobody can register: in a network, they belong to its owner."""
COUNTRY_LETTERS = 2
PARENT_LABELS = 2


class Address(NamedTuple):
    """A scheme, a host in the form of the DNS, and a port."""

    scheme: str
    host: str
    port: int

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The IP address; None for a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def netloc(self) -> str:
        """The host and, unless it is that of the scheme, the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine."""
        return self.host == "localhost" or bool(self.ip and self.ip.is_loopback)


def parse_address(url: str) -> Address | None:
    """Return the address to which requests would connect for a URL.

    Returns:
        None for what is not a URL of http or https, or contains a user or a password.
    """
    request = requests.PreparedRequest()
    try:
        request.prepare_url(url, None)  # with its reading of odd URLs, so that no other reading is checked
        parts = urlsplit(request.url or "")
        port = parts.port
    except ValueError:  # a base class of the exceptions of requests for invalid URLs
        return None
    host = _normalize_host(parts.hostname or "")
    if parts.scheme not in PORTS or "@" in parts.netloc or host is None:
        return None
    return Address(parts.scheme, host, PORTS[parts.scheme] if port is None else port)


def is_registry_of(registry_url: str, catalog_url: str) -> bool:
    """Return whether a registry can belong to a catalog.

    The schemes and ports must be the same; on this machine the ports may differ. The host must be that of the catalog,
    or a host under it, or one under the same parent domain, as quilt-registry.example.com for quilt.example.com. The
    parent has at least two labels, or is a domain of private networks, and is not one in which everyone can get a name.
    """
    registry, catalog = parse_address(registry_url), parse_address(catalog_url)
    if registry is None or catalog is None or registry.scheme != catalog.scheme:
        return False
    if registry.port != catalog.port and not (registry.is_loopback and catalog.is_loopback):
        return False
    if registry.host == catalog.host:
        return True
    if registry.ip or catalog.ip:
        return False
    return _is_below(registry.host, catalog.host) or _have_own_parent(registry.host, catalog.host)


def _normalize_host(host: str) -> str | None:
    """Return a host in ASCII in its usual form; None for what is neither an IP address nor a name."""
    try:
        return ip_address(host).compressed
    except ValueError:
        name = host.lower().removesuffix(".")
        return name if len(name) <= MAX_HOST and NAME.fullmatch(name) else None


def _is_below(host: str, domain: str) -> bool:
    return _is_own_domain(domain) and host.endswith(f".{domain}")


def _have_own_parent(one: str, other: str) -> bool:
    parent = one.partition(".")[2]
    return parent == other.partition(".")[2] and _is_own_domain(parent)


def _is_own_domain(domain: str) -> bool:
    """Return whether the names in a domain belong to one owner."""
    labels = domain.split(".")
    if domain in PRIVATE_DOMAINS:
        return True
    if len(labels) < PARENT_LABELS or any(
        domain == shared or domain.endswith(f".{shared}") for shared in SHARED_DOMAINS
    ):
        return False
    is_country = len(labels) == PARENT_LABELS and len(labels[1]) == COUNTRY_LETTERS
    return not (is_country and labels[0] in SHARED_LABELS)
