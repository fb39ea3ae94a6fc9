"""Lawful requests and answers of each protocol, written as nobody writes them: odd spacing, keys twice, huge numbers,
halves of surrogate pairs as escapes, escapes where none are needed.
"""

from typing import Any

from hypothesis import strategies as st

BLANKS = st.text(alphabet=" \t\n\r", max_size=3)
NUMBERS = st.sampled_from(["0", "-0", "1E400", "1.0", "1.50", "-1e-7", "9" * 40, "12345678901234567890123"])
ESCAPES = st.sampled_from(
    [
        r"\ud83d",
        r"\ude00",
        r"\ud83d\ude00",
        r"\u0000",
        r"\/",
        r"\u0041",
        r"\n",
        "é",
        "😀",
        "[DONE]",
        "data: ",
        r"\"",
        "x",
    ]
)
TEXTS = st.lists(ESCAPES, max_size=6).map(lambda pieces: '"' + "".join(pieces) + '"')
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.sampled_from(["null", "true", "false"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(TEXTS, inner), max_size=3).map(
            lambda pairs: "{" + " ,".join(f"{name} :{value}" for name, value in pairs) + "}"
        ),
    ),
    max_leaves=6,
)

SPOKEN = {
    "/v1/chat/completions": '"messages":[{"role":"user","content":%s}]',
    "/v1/responses": '"input":[{"type":"message","role":"user","content":%s}]',
    "/v1/messages": '"max_tokens":1e2,"messages":[{"role":"user","content":%s}]',
}
EVENTS = {
    "/v1/chat/completions": 'data: {"choices":[{"index":0,"delta":{"content":%s},"x":%s}]}',
    "/v1/responses": 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":%s,"x":%s}',
    "/v1/messages": 'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":%s},"x":%s}',
}
ENDS = {
    "/v1/chat/completions": "data: [DONE]\n\n",
    "/v1/responses": 'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n',
    "/v1/messages": 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}
BETWEEN = st.sampled_from(
    ["\n\n", "\r\n\r\n", "\n\n: comment\n\n", "\n\nevent: unknown\ndata: {}\n\n", "\n\ndata: : keepalive\n\n"]
)


@st.composite
def requests(draw: Any) -> tuple[str, bytes]:
    """A path, and a body for it."""
    path = draw(st.sampled_from([*SPOKEN]))
    fields = [
        '"model":"m-1"',
        SPOKEN[path] % draw(TEXTS),
        *(f"{draw(TEXTS)}:{draw(VALUES)}" for _ in range(draw(st.integers(0, 3)))),
    ]
    fields += draw(st.lists(st.sampled_from(fields), max_size=2))
    blank = draw(BLANKS)
    return path, f"{blank}{{{blank}{f'{blank},{blank}'.join(fields)}{blank}}}{blank}".encode("utf-8", "surrogatepass")


@st.composite
def streams(draw: Any, path: str) -> bytes:
    """The body of a streamed answer."""
    events = [EVENTS[path] % (draw(TEXTS), draw(VALUES)) + draw(BETWEEN) for _ in range(draw(st.integers(0, 5)))]
    return ("".join(events) + ENDS[path]).encode()


def answers() -> st.SearchStrategy[bytes]:
    """The body of an answer that is not streamed."""
    return st.tuples(BLANKS, VALUES, BLANKS).map(lambda found: "".join(found).encode())


def borders() -> st.SearchStrategy[list[int]]:
    """Where a body is cut into pieces."""
    return st.lists(st.integers(0, 2000), max_size=12)
