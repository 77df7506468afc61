"""A throwaway certificate authority, with one certificate for all hosts of the demo."""

import ssl
from functools import cache
from typing import NamedTuple

import trustme

from quilt_mcp.commands.demo.addresses import ACME, FOREIGN, NORTHWIND_REGISTRY, get_host


class Certificate(NamedTuple):
    """The hosts that a server can prove to be, and what a client needs to believe it."""

    hosts: frozenset[str]
    context: ssl.SSLContext
    authority: bytes
    """The certificate of the authority, in PEM."""


@cache
def make_certificate() -> Certificate:
    """Make the certificate for the demo's hosts. A process makes it once."""
    hosts = ACME.hosts | {get_host(url) for url in (FOREIGN, NORTHWIND_REGISTRY)}
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*sorted(hosts)).configure_cert(context)
    return Certificate(hosts, context, authority.cert_pem.bytes())
