"""The identity of a request: the subject that the issuer names."""

from collections.abc import Callable
from typing import Any

import pytest
from fastmcp.server.auth import AccessToken

from quilt_mcp.app import identity
from quilt_mcp.app.identity import LOCAL, Identity, current
from quilt_mcp.core.errors import NotSignedIn

ISSUER = "https://idp.example"


@pytest.fixture(name="authenticate")
def _authenticate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that authenticates the current request with a token of this client and with these claims."""

    def authenticate(client_id: str = "client", subject: str | None = None, /, **claims: Any) -> None:
        token = AccessToken(token="S3CRET", client_id=client_id, scopes=["read"], subject=subject, claims=claims)
        monkeypatch.setattr(identity, "get_access_token", lambda: token)

    return authenticate


def test_without_an_http_request_it_is_the_local_user() -> None:
    assert current() is LOCAL
    assert (LOCAL.is_local, LOCAL.key) == (True, "local")


def test_the_subject_is_that_of_the_token(authenticate: Callable[..., None]) -> None:
    authenticate(sub="ann", iss=ISSUER)
    who = current()
    assert (who.subject, who.issuer, who.scopes, who.is_local) == ("ann", ISSUER, frozenset({"read"}), False)
    assert "S3CRET" not in f"{who!r} {who.claims}"
    authenticate("ann")  # of a static token, it is the client
    assert (current().subject, current().issuer) == ("ann", None)


@pytest.mark.parametrize(
    ("client_id", "claims"),
    [
        ("shared-app", {"iss": ISSUER, "azp": "shared-app"}),
        ("shared-app", {"iss": ISSUER, "sub": ""}),
        ("shared-app", {"sub": "a\ud800"}),
        ("shared-app", {"sub": "a\nb"}),
        ("shared-app", {"sub": "a" * 1001}),
        ("shared-app", {"sub": ["ann"]}),
        ("shared-app", {"sub": ""}),
        ("None", {"sub": None}),
        ("None", {"client_id": None}),
        ("['a']", {"client_id": ["a"]}),
        ("shared-app", {"sub": "ann", "iss": [ISSUER]}),
        ("shared-app", {"sub": "ann", "iss": "a\ud800"}),
        ("unknown", {}),
        ("", {}),
    ],
)
def test_a_token_without_a_subject_is_rejected(
    client_id: str, claims: dict[str, Any], authenticate: Callable[..., None]
) -> None:
    authenticate(client_id, **claims)
    with pytest.raises(NotSignedIn, match="does not name its owner") as caught:
        current()
    assert "S3CRET" not in str(vars(caught.value))
    assert caught.value.suggested_actions == [
        "Ask the operator of this server to issue access tokens with the claim `sub`."
    ]


def test_every_identity_has_its_own_key() -> None:
    identities = [
        LOCAL,
        Identity("local"),
        Identity("a b"),
        Identity("b", "a"),
        Identity("b", " a"),
        Identity(" b", "a"),
        Identity('b"]', "a"),
        Identity("b", 'a", "'),
        Identity("b\n", "a"),
        Identity("\ud800"),
    ]
    assert len({who.key for who in identities}) == len(identities)
