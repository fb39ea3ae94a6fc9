"""Which pages may call the proxy, and under which names it answers who needs no key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.surfaces.proxy.crossing import Strange, allowed
from everlog.surfaces.proxy.incoming import Headers, Incoming

HERE = ["127.0.0.1:8788", "[::1]:8788", "192.168.0.7", "localhost", "LOCALHOST:8788", "api.localhost", "laptop", ""]
CONTAINER = "host.docker.internal:8788"


def asked(*headers: tuple[str, str]) -> Incoming:
    raw: Headers = tuple((name.encode(), value.encode()) for name, value in headers)
    return Incoming(method="GET", path="/v1/models", query=b"", headers=raw, body=b"")


def is_answered(*headers: tuple[str, str], origins: tuple[str, ...] = (), is_open: bool = True) -> bool:
    return not isinstance(allowed(asked(*headers), origins, is_open=is_open), Strange)


@pytest.mark.parametrize("host", [*HERE, CONTAINER])
def test_without_keys_it_answers_under_names_that_no_site_can_have(host: str):
    assert is_answered(("host", host))


@pytest.mark.parametrize(
    "host", ["site.example:8788", "127.0.0.1.site.example", "localhost.site.example", "site.example."]
)
def test_a_site_whose_name_was_pointed_here_gets_nothing(host: str):
    """DNS rebinding: to the browser the proxy is then that site, and its pages may read what it answers."""
    assert not is_answered(("host", host))
    assert not is_answered(("host", host), ("origin", f"http://{host}"))


def test_where_a_key_is_asked_for_any_name_will_do_and_so_does_a_named_place():
    assert is_answered(("host", "chat.example"), is_open=False)
    assert is_answered(("host", "chat.example"), origins=("https://chat.example",))
    assert is_answered(("host", "chat.example"), origins=("*",))
    assert not is_answered(("host", "chat.example"), origins=("https://other.example",))


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126)), st.sampled_from(["http://[", "http://[::1", "//", "x"])
)
def test_an_origin_or_a_host_that_is_no_address_is_refused_or_answered_never_an_error(text: str, start: str):
    for word in (text, start + text):
        is_answered(("host", word), ("origin", word), origins=("http://[", word))
    assert not is_answered(("host", "localhost"), ("origin", "http://["))
