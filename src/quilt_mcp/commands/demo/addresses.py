"""The addresses of the demo's stack. They are the same in each run, so that answers are too."""

from typing import NamedTuple
from urllib.parse import urlsplit


class Addresses(NamedTuple):
    """Where the parts of a Quilt stack are."""

    catalog: str
    registry: str
    s3_proxy: str

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the hosts, without ports."""
        return frozenset(get_host(url) for url in self)


def get_host(url: str) -> str:
    """Return the name of the host in a URL, without the port."""
    return urlsplit(url).hostname or ""


ACME = Addresses(
    "https://quilt.acme.example.com",
    "https://quilt-registry.acme.example.com",
    "https://quilt-s3-proxy.acme.example.com",
)

NORTHWIND_REGISTRY = "https://quilt-registry.northwind.example.org"
"""The stack of another company. It records what it is sent, and does nothing else."""

FOREIGN = "https://quilt-registry.elsewhere.example.net"
"""A host on another domain. It records what it is sent, and is not a stack."""
