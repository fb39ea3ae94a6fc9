"""Profiles of clients are data; what they leave out of a message is kept beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import Mistake
from everlog.messages import Media, Message, Result
from everlog.surfaces.proxy.recording.profiles import parse, profile_of, profiles
from everlog.surfaces.proxy.recording.profiles.blocks import LEFT_OUT, Blocks
from everlog.surfaces.proxy.recording.profiles.rules import Facts, Rule

REMINDER = Blocks((("<r>", "</r>"), ("# Rules for ", "</I>")))


def left(text: str, kind="user", **fields) -> Message:
    return REMINDER.leave_out(Message(kind=kind, text=text, **fields))


def test_every_file_is_a_profile():
    assert {"claude-code", "codex", "opencode", "qwen-code", "pi", "open-webui", "aider", "langchain"} <= set(
        profiles()
    )


@pytest.mark.parametrize(
    ("system", "first", "name"),
    [
        ("Act as an expert software developer.\nBe brief.", "Hello", "aider"),
        ("Act as an expert architect.", "I have *added these files to the chat* so you can edit them.", "aider"),
        ("You are an expert software engineer that generates concise, one-line Git commit messages.", "+a", "aider"),
        ("Be brief.", "Hello", "proxy"),
        ("", "<role>\nContext Extraction Assistant\n</role>", "langchain"),
    ],
)
def test_a_client_behind_the_sdk_of_openai_is_known_by_what_it_says_and_not_by_a_header_of_the_sdk(system, first, name):
    said = [Message(kind="system", text=system), Message(kind="user", text=first)]
    headers = ((b"user-agent", b"OpenAI/Python 2.20.0"), (b"x-stainless-raw-response", b"true"))
    assert profile_of(Facts(headers, {}, said)).name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        'title = "x"\ncolour = "red"',
        'title = "x"\n[identity]\nname = []',
        'title = "x"\n[[side]]\nwhy = "nothing is asked"',
        'title = "x"\n[[side]]\nmoon = "full"',
    ],
)
def test_a_file_that_says_what_no_profile_has_is_refused(text):
    with pytest.raises(Mistake):
        parse("x", text)


@pytest.mark.parametrize(
    ("text", "rest", "out"),
    [
        ("<r>Monday</r>\n\nhello", "hello", ["<r>Monday</r>"]),
        ("hello\n<r>Monday</r>\nworld", "hello\nworld", ["<r>Monday</r>"]),
        ("see <r>this</r> here", "see  here", ["<r>this</r>"]),
        ("# Rules for /x\nbe brief</I><r>a</r>", "", ["# Rules for /x\nbe brief</I>", "<r>a</r>"]),
        ("# Rules for <r>a</I> b</r>c", "c", ["# Rules for <r>a</I> b</r>"]),
    ],
)
def test_blocks_of_a_client_are_kept_beside_the_words(text, rest, out):
    message = left(text)
    assert message.text == rest
    assert message.meta == {LEFT_OUT: out}


@pytest.mark.parametrize("text", ["hello", "<r>never ends", "</r><r>", "# Rules for"])
def test_a_message_without_a_whole_block_is_the_same_message(text):
    message = Message(kind="user", text=text)
    assert REMINDER.leave_out(message) is message


def test_what_the_model_says_is_never_touched():
    message = Message(kind="assistant", text="<r>mine</r>")
    assert REMINDER.leave_out(message) is message


def test_results_lose_blocks_too_and_images_keep_their_place():
    image = Media(media_type="image/png", url="x:y", offset=12)
    message = left("<r>a</r>\nsee X", kind="tool_result", parts=(Result(call_id="c"), image))
    assert message.text == "see X"
    assert message.parts == (Result(call_id="c"), Media(media_type="image/png", url="x:y", offset=3))


@given(st.lists(st.sampled_from(["<r>", "</r>", "# Rules for ", "</I>", "\n", "a", "b "]), max_size=12).map("".join))
def test_words_and_blocks_together_are_all_that_was_said(text):
    message = left(text)
    out = message.meta.get(LEFT_OUT)
    kept = message.text + "".join(map(str, out if isinstance(out, list) else ()))
    assert sorted(kept.replace("\n", "").replace(" ", "")) == sorted(text.replace("\n", "").replace(" ", ""))


def test_a_rule_holds_if_all_that_it_asks_for_does():
    rule = Rule.parse("x", {"tools": False, "last_begins": "### Task:", "messages_at_most": 1})
    message = Message(kind="user", text="### Task: a title")
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "### Task: a title"}]}]}
    assert rule.holds(Facts((), body, [message]))
    assert not rule.holds(Facts((), {**body, "tools": [{}]}, [message]))
    assert not rule.holds(Facts((), body, [message, message]))
    assert not rule.holds(Facts((), {"messages": [{"role": "assistant", "content": "### Task:"}]}, [message]))


def test_an_sdk_of_which_a_raw_answer_is_wanted_is_not_taken_for_langchain():
    raw = ((b"user-agent", b"OpenAI/Python 3.57.0"), (b"x-stainless-raw-response", b"true"))
    assert profile_of(Facts(raw, {"model": "m"}, ())).name == "proxy"


@pytest.mark.parametrize("body", [{}, {"messages": 7}, {"messages": [7]}, {"input": "x"}, {"input": [{"type": "x"}]}])
def test_rules_look_at_a_body_of_any_shape(body):
    for profile in profiles().values():
        profile.is_side(Facts((), body, ()))
