"""Records with which identities AWS and the stack are called.

The judge is not this project: moto's STS knows which role each AWS access key was issued for, and the demo's stack
knows which user each token belongs to.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import botocore.session
from moto.sts.models import sts_backends

from quilt_mcp.demo.records import User
from quilt_mcp.demo.world import World
from tests.contract.surfaces import AnyClient, ask

CREDENTIAL = re.compile(r"Credential=([A-Z0-9]+)/")


class AWSIdentity(NamedTuple):
    """An assumed role and its session."""

    role_arn: str
    session: str


class Used(NamedTuple):
    """The identities with which AWS and the stack were called, and the hosts that received a token."""

    aws: set[AWSIdentity]
    users: set[str]
    hosts_with_token: set[str]


class Recorder:
    """Records the identity of each call to AWS.

    Attributes:
        on_call: what happens after a request is signed, before AWS receives it.
    """

    def __init__(self) -> None:
        self._keys: list[str] = []
        self.on_call: Callable[[], object] = lambda: None

    def register(self, session: botocore.session.Session) -> None:
        """Record the requests of a botocore session."""
        session.register("before-send", self._record)

    async def record(self, client: AnyClient, world: World, uri: str) -> Used:
        """Read a URI on both surfaces, and return the identities that it used."""
        self.forget(world)
        await ask(client, uri)
        return self.collect(world)

    def forget(self, world: World) -> None:
        """Forget all calls."""
        self._keys.clear()
        world.stack.calls.clear()

    def collect(self, world: World) -> Used:
        """Return the identities that were used since the last `forget`."""
        calls = list(world.stack.calls)
        return Used(
            {identify(key) for key in self._keys},
            {call.user for call in calls if call.user},
            {call.host for call in calls if call.has_token},
        )

    def _record(self, request: Any, **_: object) -> None:
        header = request.headers.get("Authorization", b"")
        text = header.decode() if isinstance(header, bytes) else str(header)
        if found := CREDENTIAL.search(text):
            self._keys.append(found[1])
        self.on_call()


def identify(access_key: str) -> AWSIdentity:
    """Return the role that AWS issued an access key for."""
    for account in sts_backends.values():
        for backend in account.values():
            if role := backend.get_assumed_role_from_access_key(access_key):
                return AWSIdentity(role.role_arn, role.session_name)
    raise AssertionError("a request was signed with a key that the fake AWS has not issued")


def find_expected(world: World, user: User | None) -> set[AWSIdentity]:
    """Return the AWS identity of a user; nothing for a user without a role."""
    if user is None or user.role is None:
        return set()
    arn = world.company.make_role_arn(world.company.find_role(user.role))
    return {AWSIdentity(arn, user.name)}
