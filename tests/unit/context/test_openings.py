"""What an epoch opens with besides lines and newest words: a question that is repeated, and a fork's own first words."""

from tests.unit.context.talking import Talk, words


def test_a_question_that_is_repeated_from_a_turn_that_has_ended_counts_towards_the_budget():
    talk = Talk(budget=600)
    talk.ask("q" * 300)
    talk.request()
    talk.round("r" * 20)
    talk.request()
    talk.thread.pump()
    asked = talk.ask("q" * 300)
    for size in (150, 300):
        talk.request()
        talk.round("r" * size)
    talk.request()
    talk.ask("q" * 300)
    made = talk.request()
    assert made.epoch.repeat == asked
    assert made.memory_bytes <= 600


def test_the_first_words_of_a_fork_are_sent_whole():
    talk = Talk(budget=8_000)
    talk.until("full", size=100)
    talk.thread = talk.thread.fork(talk.thread.row().next - 6, "fork")
    large = "begin " + "x" * 3_000 + " end"
    talk.ask(large)
    made = talk.request()
    assert made.turned == "fork"
    assert large in words(made)
