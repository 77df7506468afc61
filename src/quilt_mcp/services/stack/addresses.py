"""The addresses of a stack: what they connect to, and whether a registry can belong to a catalog."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

PORTS = {"http": 80, "https": 443}
MAX_HOST = 253  # characters, as in the DNS
NAME = re.compile(r"([a-z0-9_-]+\.)*(?!(\d+|0x[0-9a-f]*)$)[a-z0-9_-]+", re.ASCII)
"""The last label must not be a number: systems read such a name as an IP address."""
SHARED_DOMAINS = ("azurewebsites.net", "github.io", "herokuapp.com", "ngrok.io")
"""Domains in which everyone can get a name."""
SHARED_NAMES = frozenset({"amazonaws", "cloudfront"})  # of AWS, under several top-level domains
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
    is_below = _is_own_domain(catalog.host) and registry.host.endswith(f".{catalog.host}")
    parent = registry.host.partition(".")[2]
    return is_below or (parent == catalog.host.partition(".")[2] and _is_own_domain(parent))


def _normalize_host(host: str) -> str | None:
    """Return a host in ASCII in its usual form; None for what is neither an IP address nor a name."""
    try:
        return ip_address(host).compressed
    except ValueError:
        name = host.lower().removesuffix(".")
        return name if len(name) <= MAX_HOST and NAME.fullmatch(name) else None


def _is_own_domain(domain: str) -> bool:
    labels = domain.split(".")
    if domain in PRIVATE_DOMAINS:
        return True
    is_shared = any(f".{domain}".endswith(f".{shared}") for shared in SHARED_DOMAINS)
    if len(labels) < PARENT_LABELS or is_shared or not SHARED_NAMES.isdisjoint(labels):
        return False
    is_country = len(labels) == PARENT_LABELS and len(labels[1]) == COUNTRY_LETTERS
    return not (is_country and labels[0] in SHARED_LABELS)
