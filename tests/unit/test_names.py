import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.names import is_name, spelled

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
NAMES = [
    "ann",
    "Zoë Müller",
    "田中さん",
    FAMILY,
    f"{FAMILY} Miller",
    "\u2764\ufe0f",
    "\u2764\ufe0f\u200d\U0001f525 fire",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "1\ufe0f\u20e3",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
    "\u0d30\u0d3e\u0d1c\u0d28\u0d4d\u200d",
    "\u845b\U000e0100\u57ce",
    "\u05d0\u05d1",
    "\U0001fae9",
]
REFUSED = [
    "",
    "\u200d",
    f"\u200d{FAMILY}",
    f"{FAMILY}\u200d",
    "ann\u200b",
    "\ufeffann",
    "an\u200bn",
    "an\u00adn",
    "an \u200dn",
    "an\u200d n",
    "an\u200d\u200dn",
    "an\u200d\ufe0fn",
    "\ufe0fann",
    "ann \ufe0f",
    "\u3164",
    "\u2800",
    "\u202eann",
    "ann\u202c",
    "\u2066ann\u2069",
    "ann\u200f",
    "a\nb",
    "a\x00b",
    "a\x1bb",
    "a\x9bb",
    "a\u2028b",
    "\ud800",
    "\U0001f3f4\U000e0067\U000e0062",
    "ann\U000e0061",
    "ann\U000e0061\U000e0062\U000e0063\U000e007f",
    "\ufffe",
    "\U0001ffff",
    "\U000e0002",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_people_have_in_names_is_taken(name: str):
    assert is_name(name, 200)
    assert is_name(name * 2, 200)


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_what_cannot_be_seen_or_deceives_is_refused(name: str):
    assert not is_name(name, 200)


def test_a_name_has_a_longest_form():
    assert is_name("n" * 200, 200)
    assert not is_name("n" * 201, 200)
    assert is_name(FAMILY, len(FAMILY))
    assert not is_name(FAMILY, len(FAMILY) - 1)


@given(st.lists(st.sampled_from([*NAMES, *REFUSED, " ", "x", "\u200d", "\ufe0f"]), max_size=6).map("".join))
def test_any_text_can_be_spelled_as_a_name(text: str):
    assert text == "" or is_name(spelled(text), 999)
    assert is_name(spelled(f"x{text}"), 999)
    assert len(spelled(text)) == len(text)


@given(st.text(max_size=8))
def test_a_name_holds_no_end_that_nobody_sees(text: str):
    if is_name(text, 200):
        assert text[0].isprintable() or text[0] > "\u00ff"
        text.encode()
        assert not set(text) & set("\u200b\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\n\r\x00")
