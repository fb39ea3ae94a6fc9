"""The rule of alignment, one sentence a test; laws are in `test_align_laws`, recorded traps in `tests/corpus/alignment`."""

from time import process_time

import pytest

from everlog.log.align import Append, Compacted, Fork, Nothing, Sibling, align, best
from everlog.log.fingerprints import Print, prints
from everlog.messages import Call, Message, Result

SECRET = b"the rule of alignment, 32 bytes."
LONG = "which is a sentence of such a length that nobody would say it twice by chance"


def user(text: str) -> Message:
    return Message(kind="user", text=text)


def assistant(text: str) -> Message:
    return Message(kind="assistant", text=text)


def system(text: str) -> Message:
    return Message(kind="system", text=text)


def call(call_id: str, arguments: str = "{}") -> Message:
    return Message(kind="tool_call", parts=(Call(call_id=call_id, name="read", arguments=arguments),))


def result(call_id: str, text: str) -> Message:
    return Message(kind="tool_result", text=text, parts=(Result(call_id=call_id),))


def decided(log: list[Message], incoming: list[Message], **rest):
    return align(prints(SECRET, log), prints(SECRET, incoming), **rest)


HELLO = [user("hello"), assistant(f"welcome, {LONG}")]


def test_an_empty_log_takes_the_whole_history():
    assert decided([], HELLO) == Append(start=0)


def test_an_empty_history_adds_nothing():
    assert decided(HELLO, []) == Nothing(at=0)
    assert decided([], []) == Nothing(at=0)


def test_a_history_without_a_common_word_is_another_thread():
    assert decided(HELLO, [user("other"), assistant("things")]) == Sibling()


def test_an_edited_first_message_is_another_thread():
    assert decided(HELLO, [user("hello there")]) == Sibling()


def test_a_changed_last_message_is_an_edit():
    assert decided([*HELLO, user("go")], [*HELLO, user("stay")]) == Fork(at=2, start=2)


def test_a_repeated_question_after_another_answer_does_not_hide_the_other_answer():
    """People ask the same next question after a regeneration; what they say proves nothing against the assistant."""
    log = [*HELLO, user("one"), assistant("1"), user(f"and {LONG}?"), assistant("2")]
    other = [*HELLO, user("one"), assistant("eins"), user(f"and {LONG}?"), assistant("zwei")]
    assert decided(log, other) == Fork(at=3, start=3)


def test_the_assistants_words_after_a_changed_answer_tell_that_it_was_rendered_anew():
    log = [*HELLO, user("one"), assistant("1"), user("two"), assistant(f"two, {LONG}")]
    anew = [*HELLO, user("one"), assistant("(cut)"), user("two"), assistant(f"two, {LONG}"), user("three")]
    assert decided(log, anew) == Append(start=6)


def test_an_old_question_asked_again_later_does_not_hide_the_talk_before_it():
    log = [*HELLO, user(f"old, {LONG}"), assistant("an answer")]
    other = [*HELLO, user("new"), assistant("a new answer"), user(f"old, {LONG}"), assistant("another")]
    assert decided(log, other) == Fork(at=2, start=2)


def test_a_lone_short_match_in_the_middle_of_two_talks_proves_nothing():
    log = [*HELLO, user("u3"), user("ok"), assistant("a5"), user("u6")]
    other = [*HELLO, user("edited"), user("ok"), assistant("other"), user("else")]
    assert decided(log, other) == Fork(at=2, start=2)


def test_a_short_match_at_the_end_of_the_log_is_enough_for_one_changed_message():
    log = [*HELLO, user("u3 with its notes"), assistant("Done.")]
    assert decided(log, [*HELLO, user("u3"), assistant("Done."), user("u5")]) == Append(start=4)


def test_a_short_match_at_the_end_of_the_log_is_not_enough_for_gaps_of_unequal_length():
    log = [*HELLO, user("u3"), user("u4"), assistant("Done.")]
    assert decided(log, [*HELLO, user("edited"), assistant("Done."), user("u5")]) == Fork(at=2, start=2)


def test_short_answers_that_repeat_are_matched_where_they_stand():
    log = [*HELLO]
    anew = [*HELLO]
    for n in range(5):
        log += [user(f"question {n}\n[09:0{n}]"), assistant("Done.")]
        anew += [user(f"question {n}"), assistant("Done.")]
    assert decided(log, [*anew, user("the next")]) == Append(start=12)


def test_a_long_answer_that_repeats_is_matched_where_it_stands_and_not_at_the_end():
    again = assistant(f"again, {LONG}")
    log = [*HELLO, user("one"), again, user("two"), again]
    assert decided(log, [*HELLO, user("one, in other words"), again, user("three")]) == Fork(at=4, start=4)


def test_a_repeated_answer_is_found_between_the_words_around_it():
    log = [*HELLO, user("a"), assistant("Done."), user(f"b, {LONG}"), assistant("Done.")]
    assert decided(log, [*HELLO, user("a"), assistant("Done."), user("inserted"), *log[4:], user("c")]) == Append(
        start=7
    )


def test_where_matches_cross_the_assistants_words_say_which_message_was_moved():
    """One client puts its files, and a stock answer to them, before the newest question each time."""
    files = [user("the files: " + "x = 1\n" * 200), assistant("Ok.")]
    log = [*HELLO, *files, user("first question, with its rules"), assistant(f"the first answer, {LONG}")]
    anew = [*HELLO, user("first question"), assistant(f"the first answer, {LONG}"), *files, user("second, with rules")]
    assert decided(log, anew) == Append(start=4)


def test_an_answer_that_repeats_is_found_behind_an_inserted_message():
    log = [*HELLO, user("a"), assistant("Done."), user(f"b, {LONG}"), assistant("Done.")]
    anew = [*HELLO, user("a, anew"), assistant("Done."), log[4], user("inserted"), assistant("Done."), user("c")]
    assert decided(log, anew) == Append(start=7)


def test_an_answer_that_repeats_is_found_before_words_that_do_not():
    again = assistant(f"again, {LONG}")
    log = [*HELLO, again, user("one"), again, user("two"), assistant("three")]
    assert decided(log, [*HELLO, user("inserted"), *log[4:], user("four")]) == Append(start=6)


def test_a_window_of_one_short_message_is_another_thread():
    assert decided([*HELLO, user("a"), assistant("Done.")], [assistant("Done."), user("b")]) == Sibling()


def test_a_window_of_two_messages_with_one_of_the_assistants_goes_on():
    decision = decided([*HELLO, user("a"), assistant("Done.")], [user("a"), assistant("Done."), user("b")])
    assert decision == Append(start=2)
    assert not decision.shown.whole


@pytest.mark.parametrize(
    ("log", "window"),
    [
        ([user("a"), assistant("Done.")], [user("in front"), user("a"), assistant("Done."), user("b")]),
        ([user("a"), assistant("Done."), user("b"), assistant("2")], [user("a"), assistant("Done."), user("c")]),
        ([user("a"), user("b")], [user("a"), user("b"), user("c")]),
        (
            [user("a"), assistant("1"), user("b"), assistant("2")],
            [user("a"), assistant("1"), assistant("2"), user("c")],
        ),
    ],
    ids=["something before it", "not the log's end", "no word of the assistant's", "a hole in it"],
)
def test_short_words_make_a_window_only_if_they_are_the_logs_last_and_the_historys_first(log, window):
    assert decided([*HELLO, *log], window) == Sibling()


def test_words_of_a_person_alone_do_not_join_a_thread_without_its_beginning():
    """The request for a title repeats the first question behind an instruction."""
    log = [user(f"please, {LONG}")]
    assert decided(log, [user("Generate a title"), *log]) == Sibling()
    assert decided([*log, assistant("gladly")], [user("Generate a title"), *log]) == Sibling()


def test_a_call_with_another_id_is_another_call():
    log = [*HELLO, user("look"), call("c1"), result("c1", f"a b c, {LONG}"), assistant("three")]
    other = [*HELLO, user("look again"), call("c2"), result("c2", f"a b c, {LONG}"), assistant("still three")]
    assert decided(log, other) == Fork(at=2, start=2)


def test_calls_whose_ids_a_client_writes_anew_are_a_common_beginning():
    log = [*HELLO, user("look"), call("c1"), result("c1", "a b c"), assistant("three")]
    anew = [*HELLO, user("look"), call("x9"), result("x9", "a b c"), assistant("three"), user("thanks")]
    assert decided(log, anew) == Append(start=6)


def test_a_result_is_known_by_its_call_when_its_text_was_cleared():
    log = [*HELLO, user("look"), call("c1"), result("c1", "a b c")]
    assert decided(log, [*log[:4], result("c1", "[cleared]")]) == Nothing(at=5)
    assert decided(log, [*log[:4], result("c1", "[cleared]"), assistant("three")]) == Append(start=5)


def test_a_result_of_another_call_is_an_edit():
    log = [*HELLO, user("look"), call("c1"), result("c1", "a b c")]
    assert decided(log, [*log[:3], call("c2"), result("c2", "d e f")]) == Fork(at=4, start=4)


@pytest.mark.parametrize(("first", "second"), [("c1", "c2"), ("c2", "c1")])
def test_results_that_say_the_same_are_taken_in_one_by_one(first, second):
    log = [*HELLO, call(first), call(second), result(second, "")]
    assert decided(log, [*log, result(first, "")]) == Append(start=5)


@pytest.mark.parametrize(("first", "second"), [("c1", "c2"), ("c2", "c1")])
def test_results_whose_call_was_left_out_stay_in_their_order(first, second):
    log = [*HELLO, call(first), result(first, "x and more"), call(second), result(second, "y")]
    assert decided(log, [*log[:4], log[5]]) == Nothing(at=6)


@pytest.mark.parametrize(("first", "second"), [("c1", "c2"), ("c2", "c1")])
def test_results_that_come_after_the_person_spoke_again_stay_in_their_order(first, second):
    """The window begins behind their calls."""
    late = [user("meanwhile"), assistant(f"yes, {LONG}"), result(second, "y and more"), result(first, "x")]
    assert decided([*HELLO, call(first), call(second), *late], late) == Nothing(at=8)


def test_results_of_one_round_may_come_in_another_order():
    log = [*HELLO, call("c1", '{"n":1}'), call("c2", '{"n":2}'), result("c1", "x"), result("c2", "y")]
    swapped = [*log[:4], log[5], log[4]]
    assert decided(log, swapped) == Nothing(at=6)
    assert decided(log, [*swapped, assistant("both")]) == Append(start=6)


def test_a_moved_system_message_neither_matches_nor_differs():
    log = [*HELLO, system("today is Monday"), user("a"), assistant("b")]
    assert decided(log, [*HELLO, user("a"), system("today is Tuesday"), assistant("b"), user("c")]) == Append(start=5)


def test_a_changed_system_message_at_the_end_is_not_appended_again():
    log = [*HELLO, user("a"), system("today is Monday")]
    assert decided(log, [*HELLO, user("a"), system("today is Tuesday")]) == Nothing(at=4)
    assert decided(log, [*HELLO, user("a"), system("today is Tuesday"), assistant("b")]) == Append(start=4)
    assert decided(log, [*HELLO, user("a"), system("today is Tuesday"), system("new")]) == Append(start=4)


def test_a_regeneration_forks_after_the_system_message_that_goes_with_the_question():
    log = [*HELLO, user("a"), system("today is Monday"), assistant("b")]
    assert decided(log, log[:4]) == Nothing(at=4)
    assert decided(log, log[:3]) == Nothing(at=4)


def test_an_assistant_message_without_words_is_not_there():
    log = [*HELLO, user("look"), call("c1")]
    assert decided(log, [*HELLO, user("look"), assistant(" "), call("c1"), result("c1", "x")]) == Append(start=5)


def test_an_erased_entry_in_the_middle_does_not_come_back():
    old = prints(SECRET, [*HELLO, user("secret"), assistant(f"a reply, {LONG}")], {2})
    new = prints(SECRET, [*HELLO, user("secret"), assistant(f"a reply, {LONG}"), user("more")])
    assert align(old, new) == Append(start=4)


def test_people_among_themselves_need_more_than_one_short_word():
    log = [user(f"{n} said by somebody") for n in range(8)]
    other = [*log[:3], user("three, but another"), user("four, but another"), user("5 said by somebody"), user("six")]
    assert decided(log, other) == Fork(at=3, start=3)


def test_people_among_themselves_weigh_what_is_new_against_what_is_said_again():
    log = [user(f"{n} said by somebody") for n in range(4)] + [user(f"once more, {LONG}"), user("6")]
    other = [*log[:3], user("another"), user(f"and quite another, {LONG} and longer"), log[4], user("seven")]
    assert decided(log, other) == Fork(at=3, start=3)


def test_where_only_the_history_has_an_answer_it_is_weighed():
    log = [user("hello"), user(f"old, {LONG}")]
    other = [user("hello"), user("new"), assistant("a new answer"), user(f"old, {LONG}"), assistant("another")]
    assert decided(log, other) == Fork(at=1, start=1)


def test_one_changed_message_among_people_was_rendered_anew():
    log = [user(f"{n} said by somebody") for n in range(8)]
    assert decided(log, [*log[:3], user("3 (edited)"), *log[4:], user("8")]) == Append(start=8)


def test_a_summary_that_quotes_a_reply_goes_on_with_the_thread():
    log = [*HELLO, user("a"), assistant("b")]
    history = [user("the past, summarised"), user("c")]
    assert decided(log, history) == Sibling()
    assert decided(log, history, quoted=0) == Compacted(note=0, start=1)


def test_a_summary_is_not_stored_where_the_talk_after_it_is_known():
    log = [*HELLO, user("a"), assistant("b")]
    history = [user("the past, summarised"), assistant("b"), user("c")]
    assert decided(log, history, quoted=0) == Append(start=2)


def test_a_summary_is_known_again_as_the_note_it_became():
    log = [*HELLO, Message(kind="note", text=f"the past: {LONG}", author="client"), user("c")]
    history = [user(f"the past: {LONG}"), user("c")]
    assert decided(log, history, quoted=0) == Nothing(at=4)
    assert decided(log, [*history[:1], user("d")], quoted=0) == Fork(at=3, start=1)


def test_a_reply_that_is_still_in_the_history_proves_no_summary():
    log = [*HELLO, user("a"), assistant("b")]
    assert decided(log, [*HELLO, user(f"you said: welcome, {LONG}")], quoted=1) == Fork(at=2, start=2)


def test_the_thread_of_which_most_is_shown_is_chosen():
    trunk, branch = [*HELLO, user("a"), assistant("b")], [*HELLO, user("c"), assistant("d")]
    history = [*branch, user("e")]
    assert best([("trunk", decided(trunk, history)), ("branch", decided(branch, history))]) == (
        "branch",
        Append(start=4),
    )


def test_a_quoted_reply_shows_more_of_a_thread_than_a_short_beginning():
    history = [user("notes of the client"), user("the past, summarised"), user("c")]
    quoting = decided([*HELLO, user("a"), assistant("b")], history, quoted=1)
    beginning = decided([user("notes of the client"), user("d"), assistant("e")], history)
    assert best([("beginning", beginning), ("quoting", quoting)]) == ("quoting", Compacted(note=1, start=2))


def test_of_threads_of_which_as_much_is_shown_the_one_that_goes_on_is_chosen():
    longer, shorter = [*HELLO, user("a"), assistant("b")], HELLO
    history = [*HELLO, user("c")]
    chosen = best([("longer", decided(longer, history)), ("shorter", decided(shorter, history))])
    assert chosen == ("shorter", Append(start=2))


def test_no_thread_is_chosen_among_strangers():
    assert best([]) is None
    assert best([("other", Sibling())]) is None


@pytest.mark.parametrize(
    ("history", "reached"),
    [
        ([*HELLO, user("a"), assistant("b"), user("c")], True),
        ([*HELLO, user("edited")], True),
        ([*HELLO], True),
        ([user("hello")], False),
        ([user("a"), assistant("b"), user("c")], False),
        ([user("hello?"), *HELLO[1:], user("a"), assistant("b"), user("c")], False),
    ],
)
def test_without_a_name_a_thread_is_reached_only_by_showing_all_of_it(history, reached):
    chosen = best([("thread", decided([*HELLO, user("a"), assistant("b")], history))], named=False)
    assert (chosen is not None) == reached


def test_without_a_name_a_summary_reaches_no_thread():
    decision = decided([*HELLO, user("a"), assistant("b")], [*HELLO, user("the past")], quoted=2)
    assert decision == Compacted(note=2, start=3)
    assert best([("thread", decision)], named=False) is None


def test_twenty_thousand_equal_messages_cost_no_more_than_different_ones():
    """In CPU time of this thread, with room for a slow machine: quadratic work would take hours."""
    n = 20_000

    def one(name: int) -> Print:
        return Print(fp=name.to_bytes(16, "big"), kind="assistant", size=2)

    same, first = [one(7)] * n, one(1)
    different, mixed = [one(i) for i in range(10, n + 10)], [one(i % 100 + 10) for i in range(n)]
    begun = process_time()
    assert align([one(3), one(2), *same], [one(3), first, *same, one(9)]) == Append(start=n + 2)
    assert align(same, [one(3), *same]) == Append(start=n)
    assert align([first, *different], [first, *reversed(different)]) == Fork(at=1, start=1)
    assert isinstance(align([first, *mixed], [first, one(2), *mixed[1:], one(3)]), Append | Fork)
    assert process_time() - begun < 10
