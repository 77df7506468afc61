"""Who a request comes from: what the issuer says, and nobody where it says nothing."""

from typing import Any

import pytest
from fastmcp.server.auth import AccessToken

from quilt_mcp import identity
from quilt_mcp.errors import NotSignedIn
from quilt_mcp.identity import LOCAL, Identity, current

ISSUER = "https://idp.example"


@pytest.fixture(name="proves")
def _proves(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the transport have proved a token with these claims, and of this client."""

    def prove(client_id: str = "client", subject: str | None = None, **claims: Any) -> None:
        token = AccessToken(token="S3CRET", client_id=client_id, scopes=["read"], subject=subject, claims=claims)
        monkeypatch.setattr(identity, "get_access_token", lambda: token)

    return prove


def test_without_a_request_over_http_it_is_the_person_at_this_machine() -> None:
    assert current() is LOCAL
    assert (LOCAL.is_local, LOCAL.key) == (True, "local")


def test_the_subject_is_the_issuers(proves: Any) -> None:
    proves(sub="ann", iss=ISSUER)
    who = current()
    assert (who.subject, who.issuer, who.scopes, who.is_local) == ("ann", ISSUER, frozenset({"read"}), False)
    assert "S3CRET" not in f"{who!r} {who.claims}"


def test_a_static_token_is_its_clients(proves: Any) -> None:
    proves("ann")
    assert (current().subject, current().issuer) == ("ann", None)


@pytest.mark.parametrize(
    ("client_id", "claims"),
    [
        ("an-app-of-many", {"iss": ISSUER, "azp": "an-app-of-many"}),
        ("an-app-of-many", {"iss": ISSUER, "sub": ""}),
        ("unknown", {}),
        ("", {}),
    ],
)
def test_a_token_that_names_nobody_is_nobodys(client_id: str, claims: dict[str, Any], proves: Any) -> None:
    proves(client_id, **claims)
    with pytest.raises(NotSignedIn, match="does not say whose it is") as caught:
        current()
    assert "S3CRET" not in str(vars(caught.value))


def test_no_two_identities_share_a_key() -> None:
    everyone = [
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
    assert len({who.key for who in everyone}) == len(everyone)
