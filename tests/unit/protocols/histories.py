"""Histories as nobody should send them: calls and results anywhere, ids that repeat, pieces that are empty."""

from hypothesis import strategies as st

from everlog.messages import Call, Media, Message, Result
from everlog.protocols.exchange import said

texts = st.sampled_from(["", " ", "\n", "ok", "go on ", "a word", "zwei\nZeilen", "höchst \U0001f980"])
call_ids = st.sampled_from(["call_0", "call_1", "toolu_a", "functions.read:0", "", "x" * 70, "call_0_2"])
arguments = st.sampled_from(['{"path":"a"}', "{}", "", '{"path": "a', "[1]", '"a"'])
names = st.sampled_from(["read", "list"])


def lists(items, most=12):
    return st.lists(items, max_size=most)


@st.composite
def chat_bodies(draw):
    calls = st.builds(
        lambda call_id, name, words: {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": words},
        },
        call_ids,
        names,
        arguments,
    )
    message = st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, texts),
        st.builds(lambda text: {"role": "system", "content": text}, texts),
        st.builds(lambda one, text: {"role": "tool", "tool_call_id": one, "content": text}, call_ids, texts),
        st.builds(
            lambda text, some: {"role": "assistant", "content": text, "tool_calls": some},
            st.one_of(st.none(), texts),
            lists(calls, 3),
        ),
        st.builds(lambda text: {"role": "assistant", "content": text, "x_new": [1.5, None]}, texts),
    )
    return {"model": "m", "messages": draw(lists(message)), "x_future": {"a": [1]}}


@st.composite
def responses_bodies(draw):
    item_ids = st.sampled_from(["fc_1", "fc_2", "rs_1", "rs_2", "msg_1"])
    item = st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, texts),
        st.builds(
            lambda text, name: {
                "type": "message",
                "role": "assistant",
                "id": name,
                "content": [{"type": "output_text", "text": text}],
            },
            texts,
            item_ids,
        ),
        st.builds(
            lambda one, name, words: {"type": "function_call", "call_id": one, "name": name, "arguments": words},
            call_ids,
            names,
            arguments,
        ),
        st.builds(lambda one, text: {"type": "function_call_output", "call_id": one, "output": text}, call_ids, texts),
        st.builds(
            lambda one, text: {"type": "custom_tool_call", "call_id": one, "name": "x", "input": text}, call_ids, texts
        ),
        st.builds(
            lambda one, text: {"type": "custom_tool_call_output", "call_id": one, "output": text}, call_ids, texts
        ),
        st.builds(lambda name: {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "e"}, item_ids),
        st.just({"type": "web_search_call", "status": "completed"}),
        st.just({"type": "x_unknown", "value": 1}),
    )
    return {"model": "m", "input": draw(lists(item)), "x_future": 1}


@st.composite
def anthropic_bodies(draw):
    text = st.builds(lambda words: {"type": "text", "text": words}, texts)
    marked = st.builds(lambda block: {**block, "cache_control": {"type": "ephemeral"}}, text)
    result = st.builds(
        lambda one, content: {"type": "tool_result", "tool_use_id": one, "content": content},
        call_ids,
        st.one_of(texts, lists(text, 2)),
    )
    step_ids = st.sampled_from(["srvtoolu_1", "srvtoolu_2"])
    block = st.one_of(
        text,
        st.builds(
            lambda one, name, given: {"type": "tool_use", "id": one, "name": name, "input": given},
            call_ids,
            names,
            st.sampled_from([{}, {"path": "a"}, "", '{"path": "a', None]),
        ),
        st.builds(
            lambda words, mark: {"type": "thinking", "thinking": words, "signature": mark},
            texts,
            st.sampled_from(["", "sig"]),
        ),
        st.just({"type": "redacted_thinking", "data": "xyz"}),
        st.builds(lambda one: {"type": "server_tool_use", "id": one, "name": "web_search", "input": {}}, step_ids),
        st.builds(lambda one: {"type": "web_search_tool_result", "tool_use_id": one, "content": []}, step_ids),
        st.just({"type": "x_unknown", "value": 1}),
    )
    message = st.one_of(
        st.builds(lambda words: {"role": "user", "content": words}, texts),
        st.builds(lambda some: {"role": "user", "content": some}, lists(st.one_of(text, marked, result, result), 4)),
        st.builds(lambda words: {"role": "assistant", "content": words}, texts),
        st.builds(lambda some: {"role": "assistant", "content": some}, lists(block, 5)),
    )
    return {"model": "m", "max_tokens": 9, "system": draw(texts), "messages": draw(lists(message)), "x_future": None}


BODIES = {"chat_completions": chat_bodies(), "responses": responses_bodies(), "anthropic": anthropic_bodies()}

media = st.builds(
    lambda content: Media(media_type="image/png", content=content), st.sampled_from([b"\x89PNG", b"\x00\xff", b"a"])
)


def called(call_id, name, words):
    return Message(kind="tool_call", text=f"{name} {words}", parts=(Call(call_id=call_id, name=name, arguments=words),))


messages = st.one_of(
    st.builds(lambda text: Message(kind="user", text=text), texts),
    st.builds(lambda text, image: Message(kind="user", text=text, parts=(image,)), texts, media),
    st.builds(lambda text: Message(kind="assistant", text=text), texts),
    st.builds(lambda text: Message(kind="system", text=text), texts),
    st.builds(lambda text: Message(kind="note", text=text), texts),
    st.builds(called, call_ids, names, arguments),
    st.builds(lambda one, text: Message(kind="tool_result", text=text, parts=(Result(call_id=one),)), call_ids, texts),
)
histories = st.lists(messages, max_size=12).map(said)


@st.composite
def talks(draw):
    """A lawful conversation, in rounds: words of the user, then replies with calls and their results."""
    out = [Message(kind="system", text="Be brief.")] if draw(st.booleans()) else []
    number = 0
    words = st.sampled_from(["ok", "a word", "zwei\nZeilen", "höchst \U0001f980"])
    for _ in range(draw(st.integers(1, 4))):
        out.append(Message(kind="user", text=draw(words), parts=tuple(draw(st.lists(media, max_size=1)))))
        for _ in range(draw(st.integers(0, 2))):
            calls = [f"call_{number + k}" for k in range(draw(st.integers(1, 2)))]
            number += len(calls)
            out += [Message(kind="assistant", text=draw(words))] if draw(st.booleans()) else []
            out += [called(one, draw(names), '{"path":"a"}') for one in calls]
            out += [Message(kind="tool_result", text=draw(words), parts=(Result(call_id=one),)) for one in calls]
        out.append(Message(kind="assistant", text=draw(words)))
    return said(out)
