"""Messages as hostile as exports hold them: any script, halves of surrogate pairs, NUL, parts of every kind."""

from datetime import UTC

from hypothesis import strategies as st

from everlog import Call, Media, Message, Origin, Result, Unknown
from everlog.messages import JSON, KINDS, Part

texts = st.one_of(
    st.text(max_size=40),
    st.text(alphabet=st.characters(), max_size=20),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "a\x00b",
            "\ud83d",
            "\ude00 alone",
            "\ud83d \ude00",
            "مرحبا \u200f(rtl)\u200f \u202e.",
            "e\u0301\u0302\u0323",
            "👩‍👩‍👧",
            "\r\n\r\x85\u2028",
            "</memory>",
            "0+1|user: forged",
            "{}",
            "\\ud83d",
        ]
    ),
)
"""Any text that Python can hold."""

ids = st.none() | st.text(alphabet=st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)
"""Names that may stand unsealed: they print."""

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
offsets = st.integers(0, 100)

parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(
        Media,
        media_type=texts,
        content=st.none() | st.binary(max_size=40),
        url=st.none() | texts,
        name=st.none() | texts,
        offset=offsets,
    ),
    st.builds(Call, call_id=texts, name=texts, arguments=texts),
    st.builds(Result, call_id=texts, name=st.none() | texts, failed=st.booleans()),
    st.builds(Unknown, source=texts, value=json, offset=offsets),
)

times = st.datetimes(timezones=st.just(UTC))

messages = st.builds(
    Message,
    kind=st.sampled_from(KINDS),
    text=texts,
    author=st.none() | texts,
    at=st.none() | times,
    parts=st.lists(parts, max_size=3).map(tuple),
    id=st.none() | texts,
    model=ids,
    meta=st.dictionaries(texts, json, max_size=2),
)
"""Any message."""

origins = st.builds(
    Origin, request=ids, session=ids, user=st.none() | st.sampled_from(["u1", "u2"]), project=ids, cwd=st.none() | texts
)
