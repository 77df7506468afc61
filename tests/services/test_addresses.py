"""Which registry addresses can belong to a catalog. Only these get a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.services.stack.addresses import is_registry_of, parse_address

LABELS = st.text("abcxyz019", min_size=1, max_size=12).filter(lambda one: not one.isdigit())  # no name that AWS shares
HOSTS = st.builds(lambda *labels: ".".join(labels), LABELS, LABELS, st.sampled_from(["com", "org", "example", "dev"]))
SCHEMES = st.sampled_from(["http", "https"])


@pytest.mark.parametrize(
    ("registry", "catalog"),
    [
        ("https://quilt-registry.mycompany.com", "https://quilt.mycompany.com"),  # as Quilt documents it
        ("https://quilt.mycompany.com", "https://quilt.mycompany.com"),
        ("https://registry.quilt.mycompany.com", "https://quilt.mycompany.com"),
        ("https://quilt-registry.research.mycompany.co.uk", "https://quilt.research.mycompany.co.uk"),
        ("https://quilt-registry.mycompany.co.uk", "https://quilt.mycompany.co.uk"),
        ("HTTPS://Quilt-Registry.MyCompany.COM.", "https://quilt.mycompany.com"),
        ("https://quilt-registry.mycompany.com:443", "https://quilt.mycompany.com"),
        ("https://quilt-registry.mycompany.com:8443", "https://quilt.mycompany.com:8443"),
        ("https://registry.münchen.example", "https://quilt.xn--mnchen-3ya.example"),
        ("http://127.0.0.1:5001", "http://127.0.0.1:5000"),
        ("http://localhost:5001", "http://localhost:5000"),
        ("http://[::1]:5001", "http://[0:0:0:0:0:0:0:1]:5000"),
        ("https://10.0.0.5", "https://10.0.0.5"),
        ("https://quilt", "https://quilt"),
    ],
)
def test_these_belong_together(registry: str, catalog: str) -> None:
    assert is_registry_of(registry, catalog)


@pytest.mark.parametrize(
    ("registry", "catalog"),
    [
        ("http://quilt-registry.mycompany.com", "https://quilt.mycompany.com"),
        ("https://quilt.mycompany.com.evil.org", "https://quilt.mycompany.com"),
        ("https://quilt-registry-mycompany.com", "https://quilt.mycompany.com"),
        ("https://evilquilt.mycompany.com.", "https://other.quilt.mycompany.com"),
        ("https://mycompany.com", "https://quilt.mycompany.com"),
        ("https://evil.com", "https://quilt.com"),  # the parent has one label
        ("https://evil.co.uk", "https://quilt.co.uk"),
        ("https://evil.com.au", "https://quilt.com.au"),
        ("https://registry.co.uk", "https://co.uk"),
        ("https://x.com", "https://com"),
        ("https://evil.cloudfront.net", "https://d111111abcdef8.cloudfront.net"),
        ("https://evil.us-east-1.elb.amazonaws.com", "https://quilt.us-east-1.elb.amazonaws.com"),
        ("https://evil.cn-north-1.elb.amazonaws.com.cn", "https://quilt.cn-north-1.elb.amazonaws.com.cn"),
        ("https://evil.cloudfront.cn", "https://d111111abcdef8.cloudfront.cn"),
        ("https://quilt-registry.mycompany.com:8443", "https://quilt.mycompany.com"),
        ("https://user@quilt-registry.mycompany.com", "https://quilt.mycompany.com"),
        ("https://quilt.mycompany.com@evil.org", "https://quilt.mycompany.com"),
        ("https://quilt.mycompany.com:x@evil.org", "https://quilt.mycompany.com"),
        ("https://10.0.0.6", "https://10.0.0.5"),
        ("https://1.0.0.5", "https://0.0.5"),
        ("http://127.0.0.2:80", "http://127.0.0.1:80"),
        ("http://2130706433", "http://127.0.0.1"),  # systems read such names as IP addresses
        ("https://registry.0x7f", "https://0x7f"),
        ("https://quilt..mycompany.com", "https://quilt.mycompany.com"),
        ("https://", "https://quilt.mycompany.com"),
        ("", "https://quilt.mycompany.com"),
        ("ftp://quilt.mycompany.com", "ftp://quilt.mycompany.com"),
        ("file:///etc/passwd", "https://quilt.mycompany.com"),
        ("quilt-registry.mycompany.com", "https://quilt.mycompany.com"),
        ("https://quilt.mycompany.com:99999", "https://quilt.mycompany.com"),
        ("https://xn--mnchen-3ya.example", "https://munchen.example"),
    ],
)
def test_these_do_not_belong_together(registry: str, catalog: str) -> None:
    assert not is_registry_of(registry, catalog)


@given(SCHEMES, HOSTS, LABELS)
def test_an_address_below_a_catalog_and_one_beside_it_belong_to_it(scheme: str, host: str, label: str) -> None:
    catalog = f"{scheme}://{host}"
    assert is_registry_of(catalog, catalog)
    assert is_registry_of(f"{scheme}://{label}.{host}", catalog)
    assert is_registry_of(f"{scheme}://{label}.{host.partition('.')[2]}", catalog)
    assert is_registry_of(f"{scheme}://{host.upper()}.", catalog)


@given(SCHEMES, HOSTS, HOSTS, LABELS)
def test_an_address_in_another_domain_never_belongs_to_a_catalog(
    scheme: str, host: str, other: str, label: str
) -> None:
    if host.split(".")[-2:] == other.split(".")[-2:]:
        other = f"x{other}"
        other = other.replace(".", "-", 1) + ".org"
    if host.split(".")[-2:] == other.split(".")[-2:]:
        return
    catalog = f"{scheme}://{host}"
    for registry in (other, f"{host}.{other}", f"{label}.{host}.{other}", f"{host}@{other}", f"{host}:80@{other}"):
        assert not is_registry_of(f"{scheme}://{registry}", catalog)


@given(HOSTS)
def test_another_scheme_or_port_never_belongs_to_a_catalog(host: str) -> None:
    assert not is_registry_of(f"http://{host}", f"https://{host}")
    assert not is_registry_of(f"https://{host}:444", f"https://{host}")


@given(st.text(max_size=40), st.sampled_from(["", "https://", "http://", "https://quilt.mycompany.com", "//"]))
def test_no_text_fails(text: str, start: str) -> None:
    url = start + text
    address = parse_address(url)
    assert address is None or (address.host and address.host == address.host.lower())
    if is_registry_of(url, "https://quilt.mycompany.com"):
        assert address
        assert address.host.endswith("mycompany.com")
