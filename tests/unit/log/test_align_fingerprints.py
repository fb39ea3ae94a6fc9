"""What makes two messages the same message, one sentence a test."""

from datetime import UTC, datetime
from itertools import product

import pytest

from everlog.log.fingerprints import BLANK, ERASED, GENESIS, QUOTING_BYTES, Fingerprints, leading, prints, quoted
from everlog.messages import JSON, Call, Media, Message, Result, Unknown

SECRET = b"what makes messages the same...."
REMINDER = [("<system-reminder>", "</system-reminder>")]
REPLY = "".join(f"Sentence {n} of a reply that says what was done and what is left to do. " for n in range(12))


def same(one: Message, other: Message, **rest) -> bool:
    first, second = (prints(SECRET, [message], **rest)[0].fp for message in (one, other))
    return first == second


def called(arguments: str, name: str = "read", call_id: str = "c1") -> Message:
    return Message(kind="tool_call", parts=(Call(call_id=call_id, name=name, arguments=arguments),))


def shown(**image) -> Message:
    return Message(kind="user", text="look", parts=(Media(media_type="image/png", **image),))


def test_who_said_it_when_with_what_and_under_which_id_is_left_out():
    bare = Message(kind="user", text="yes")
    full = Message(
        kind="user", text="yes", author="Ada", at=datetime(2026, 1, 5, tzinfo=UTC), id="m1", model="m", meta={"a": 1}
    )
    assert same(bare, full)


def test_the_kind_is_part_of_it_and_a_note_counts_as_said_by_the_user():
    user, assistant, note = (Message(kind=kind, text="yes") for kind in ("user", "assistant", "note"))
    assert not same(user, assistant)
    assert same(user, note)


def test_space_inside_a_text_is_part_of_it():
    assert not same(Message(kind="user", text="a b"), Message(kind="user", text="a  b"))


def test_a_calls_text_only_repeats_the_call():
    plain = called('{"a":1}')
    assert same(plain, Message(kind="tool_call", text='read {"a": 1}', parts=plain.parts))


def test_a_call_without_its_parts_is_known_by_its_text():
    assert not same(Message(kind="tool_call", text="read a"), Message(kind="tool_call", text="read b"))


def test_the_id_of_a_call_is_left_out_and_ties_it_to_its_result():
    calls = prints(SECRET, [called("{}", call_id="c1"), called("{}", call_id="c2")])
    result = prints(SECRET, [Message(kind="tool_result", text="x", parts=(Result(call_id="c2"),))])[0]
    assert calls[0].fp == calls[1].fp
    assert (calls[0].call == result.call, calls[1].call == result.call) == (False, True)


def test_a_result_is_its_words_alone():
    one = Message(kind="tool_result", text="x", parts=(Result(call_id="c1", name="read", failed=True),))
    assert same(one, Message(kind="tool_result", text="x\n", parts=(Result(call_id="c2"),)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"b":1,"a":[1,2]}', '{ "a": [1.0, 2e0], "b": 1.0 }'),
        ('{"n":12345678901234567890}', '{"n":12345678901234567000}'),
        ('{"n":-0.0}', '{"n":0}'),
        ('{"t":"\\u00e9\\ud83d\\ude00"}', '{"t":"é😀"}'),
        ("", "{}"),
        ("not json ", " not json"),
        ("[" * 100_000, "[" * 100_000 + "\n"),
    ],
)
def test_arguments_are_the_same_whoever_wrote_them_last(one, other):
    assert same(called(one), called(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":null}', "{}"),
        ('{"a":"x"}', '{"a":"x "}'),
        ("not json", "no json"),
    ],
)
def test_other_arguments_are_another_call(one, other):
    assert not same(called(one), called(other))


def test_another_tool_is_another_call():
    assert not same(called("{}", "read"), called("{}", "write"))


def test_an_image_is_its_bytes():
    assert same(shown(content=b"\x89PNG 1", name="a.png"), shown(content=b"\x89PNG 1"))
    assert not same(shown(content=b"\x89PNG 1"), shown(content=b"\x89PNG 2"))


def test_a_link_is_known_without_its_query_and_before_what_it_holds():
    assert same(shown(url="https://a.example/i?sig=1#x"), shown(url="https://a.example/i?sig=2"))
    assert same(shown(url="file-1"), shown(url="file-1", content=b"found in the archive"))
    assert not same(shown(url="https://a.example/i"), shown(url="https://a.example/j"))


def test_a_file_of_which_only_the_name_is_known_is_its_name():
    assert not same(shown(name="a.png"), shown(name="b.png"))
    assert not prints(SECRET, [Message(kind="user", parts=(Media(media_type="image/png"),))])[0].quiet


def test_where_in_the_text_an_image_stands_is_left_out():
    assert same(shown(content=b"1", offset=0), shown(content=b"1", offset=4))


def test_an_unknown_part_is_its_value():
    values: list[JSON] = [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}, {"a": 1}]
    one, other, third = (Message(kind="user", parts=(Unknown(source="chatgpt", value=value),)) for value in values)
    assert same(one, other)
    assert not same(one, third)


def test_text_and_parts_cannot_be_taken_for_each_other():
    assert not same(Message(kind="user", text="link"), Message(kind="user", parts=(Media(media_type="a/b", url=""),)))
    two = Message(kind="user", parts=(Media(media_type="a/b", url="a"), Media(media_type="a/b", url="b")))
    assert not same(two, Message(kind="user", parts=(Media(media_type="a/b", url="alinkb"),)))


@pytest.mark.parametrize("text", ["a\0b", "\ud83d alone", "שלום", "e\u0301", "x" * 1_000_000])
def test_any_text_has_a_print(text):
    assert same(Message(kind="user", text=text), Message(kind="user", text=f"\n{text} "))
    assert not same(Message(kind="user", text=text), Message(kind="user", text=f"{text}!"))


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>Monday</system-reminder>\n\nhello\nworld",
        "hello\n<system-reminder>Monday</system-reminder>\nworld",
        "hello\nworld\n<system-reminder>Monday</system-reminder>",
        "hello\n<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>\n\nworld",
        "hello<system-reminder>\n</system-reminder>\nworld",
    ],
)
def test_a_block_of_the_client_is_no_part_of_the_text(text):
    assert same(Message(kind="user", text=text), Message(kind="user", text="hello\nworld"), blocks=REMINDER)
    assert not same(Message(kind="user", text=text), Message(kind="user", text="hello\nworld"))


def test_a_block_that_does_not_end_is_text():
    text = "what is <system-reminder> for?"
    assert same(Message(kind="user", text=text), Message(kind="user", text=f"{text}\n"), blocks=REMINDER)
    assert not same(Message(kind="user", text=text), Message(kind="user", text="what is"), blocks=REMINDER)


def test_blanks_system_messages_and_tombstones_are_quiet_and_in_no_chain():
    said, blank, system, block = (
        Message(kind="user", text="hello"),
        Message(kind="assistant", text=" \n"),
        Message(kind="system", text="be kind"),
        Message(kind="user", text="<system-reminder>Monday</system-reminder>"),
    )
    found = prints(SECRET, [blank, said, system, said, block], {3}, blocks=REMINDER)
    assert [one.quiet for one in found] == [True, False, True, True, True]
    assert [found[0].fp, found[3].fp, found[4].fp] == [BLANK, ERASED, BLANK]
    assert found[0].chain == GENESIS
    assert {one.chain for one in found[1:]} == {found[1].chain}


def test_a_call_and_a_result_without_words_are_not_blank():
    empty = Message(kind="tool_result", parts=(Result(call_id="c1"),))
    assert not any(one.quiet for one in prints(SECRET, [called(""), empty]))


def test_the_size_is_that_of_what_was_said():
    assert prints(SECRET, [Message(kind="user", text=" größer\r\n")])[0].size == len("größer".encode())


@pytest.mark.parametrize("secret", [b"", bytes(65)])
def test_fingerprints_need_a_secret_that_blake2b_takes(secret):
    with pytest.raises(ValueError, match="64"):
        Fingerprints(secret)


def test_leading_system_messages_are_split_off_and_later_ones_stay():
    first, second, said, later = (
        Message(kind="system", text="one"),
        Message(kind="system", text="two"),
        Message(kind="user", text="hello"),
        Message(kind="system", text="three"),
    )
    assert leading([first, second, said, later]) == ((first, second), (said, later))
    assert leading([first]) == ((first,), ())
    assert leading([said]) == ((), (said,))
    assert leading([]) == ((), ())


def test_a_reply_that_stands_in_the_history_is_found_there_first():
    assert quoted(["question", REPLY, f"you said: {REPLY}"], [REPLY]) == 1


def test_a_reply_shorter_than_200_bytes_is_never_a_quotation():
    short = REPLY[:190]
    assert quoted([short, f"{short} and {short}"], [short]) is None


def test_a_quotation_may_have_other_line_ends():
    reply = REPLY.replace(". ", ".\n")
    assert quoted([f"Summary:\r\n{reply}".replace("\n", "\r\n")], [reply]) == 0


def test_rulers_and_blanks_prove_nothing():
    assert quoted(["-" * 5000], ["-" * 5000]) is None
    assert quoted(["| --- " * 1000], ["| --- " * 1000]) is None


def test_no_replies_or_no_texts_hold_no_quotation():
    assert quoted([], [REPLY]) is None
    assert quoted([REPLY], []) is None


def test_a_quotation_is_found_wherever_it_is_cut_from_the_reply():
    """At each offset within a piece, at both ends of the text, with runs of just enough and just too few bytes."""
    reply = REPLY.replace(" ", "-")
    for offset, (before, after) in product(range(0, 110, 3), [("", ""), ("<<", ""), ("", ">>"), ("<<", ">>")]):
        run = reply[offset : offset + 200]
        assert quoted([before + run + after], [reply]) == 0
        assert quoted([before + run[:199] + after], [reply]) is None


def test_a_quote_is_looked_for_at_the_beginning_of_a_history_only():
    file = "0123456789abcdef" * (QUOTING_BYTES // 16)
    assert quoted([f"Summary: {REPLY}", file], [REPLY]) == 0
    assert quoted([file[:5000], f"Summary: {REPLY}"], [REPLY]) == 1
    assert quoted([file, f"Summary: {REPLY}"], [REPLY]) is None
