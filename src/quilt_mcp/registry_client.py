"""quilt3's GraphQL queries, for whomever they are sent.

Imported by `caller.py` only, because it imports quilt3.
"""

import requests

# quilt3 offers its generated client nowhere else; every test of admin:// fails when it moves.
from quilt3._graphql_client import Client


class RegistryClient(Client):  # type: ignore[misc]  # quilt3 has no types
    """The queries and the forms of their answers are quilt3's; the session is the caller's."""

    def __init__(self, registry_url: str, session: requests.Session) -> None:
        # Not quilt3's own: that takes the one session of the process, with the login of this machine.
        self.url = f"{registry_url}/graphql"
        self.http_client = session
