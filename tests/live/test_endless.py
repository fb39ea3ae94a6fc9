"""A small log, twelve questions, and one small real model as compactor and as reader: a smoke test of the wire.

How many answers are right, with and without the memory, is printed and never asserted: so small a model proves that all parts
fit, not what a memory is worth.
"""

from pathlib import Path

import pytest

import everlog
from everlog import Chat, Message

pytestmark = pytest.mark.live

MODEL = "smollm2-135m"
BUDGET = 1_600
"""Bytes: less than the log has."""

SAID = """
Hello. I am Mara Lindqvist, and I keep the lighthouse on the island of Skarv. My dog is called Biscuit; he is nine.
Good to meet you, Mara, and Biscuit too. What shall we plan for the lighthouse on Skarv this spring?
The lamp has to be replaced. The new lamp costs 4,200 euros, and the supplier is Norrlys in the town of Bergen.
Noted: a new lamp from Norrlys in Bergen for 4,200 euros. When is it to come, and who carries it up the stairs?
It comes by boat on 14 May. The boat is the Alma, and its captain is Jonas Berg. The tower has 132 stairs.
Then on 14 May Jonas Berg brings it with the Alma. With 132 stairs two strong people should carry it together.
My sister Elin helps. She lives in Tromso and plays the cello. She is afraid of heights, so she stays below.
Elin can take it off the Alma and watch Biscuit. You still need one more person for the stairs of the tower.
Then I ask the teacher, Petter. No paint this year: the red of the door stays as it is until next summer.
Petter for the stairs, then, and no paint this year; the door stays red. Is there anything about the generator?
The generator needs 30 litres of diesel each week. The spare key of the shed hangs behind the blue clock.
30 litres of diesel a week, and the spare key is behind the blue clock. I will keep both in mind for the visit.
The code of the radio is kestrel. On Sundays there is no service, as the relay on the mainland is switched off.
The radio's code is kestrel, and on Sundays it is silent. Shall we write the list of what has to be done by May?
""".strip().splitlines()
"""What a user and an assistant say in turn."""

QUESTIONS = [
    ("What is the name of my dog?", "biscuit"),
    ("On which island is the lighthouse?", "skarv"),
    ("How many euros does the new lamp cost?", "4,200"),
    ("Which company supplies the lamp?", "norrlys"),
    ("On which day does the lamp come?", "14 may"),
    ("What is the name of the boat?", "alma"),
    ("Who is the captain of the boat?", "jonas"),
    ("How many stairs does the tower have?", "132"),
    ("Which instrument does my sister play?", "cello"),
    ("What colour is the door?", "red"),
    ("Behind what does the spare key hang?", "clock"),
    ("What is the code of the radio?", "kestrel"),
]


def asked(config, tokens=40):
    chat = Chat(MODEL, provider="ollama", assume_model_exists=True, config=config)
    return chat.with_temperature(0).with_max_output_tokens(tokens)


def is_right(text, wanted):
    said = text.casefold()
    return wanted in said or wanted.replace(",", "") in said


@pytest.mark.timeout(600)
@pytest.mark.covers("A15")
def test_twelve_questions_about_fourteen_messages_with_and_without_a_memory(config, tmp_path: Path, capsys):
    with everlog.open(tmp_path / "live.db") as home:
        thread = home.thread("log")
        for question, answer in zip(SAID[::2], SAID[1::2], strict=True):
            thread.turn([Message(kind="user", text=question), Message(kind="assistant", text=answer)])
        ran = thread.pump(asked(config, tokens=120))
        assert (ran.done, ran.remaining) == (True, 0)
        built = thread.cost().memory
        assert built.requests > 0
        assert built.output_tokens > 0
        memory = home.attach(asked(config).fresh, key="log", budget=BUDGET, pump="none")
        rows = [answered(config, memory, number) for number in range(len(QUESTIONS))]
        assert [one.text for one in thread.entries()] == SAID
    report = [
        f"{MODEL}, {BUDGET} bytes of memory; {built.requests} requests for {ran.steps} lines",
        "with   without  tokens  opened",
        *(f"{row[0]!s:5}  {row[1]!s:7}  {row[2]:6}  {row[3]:6}  {row[4]}" for row in rows),
        f"{sum(row[0] for row in rows)} of 12 right with the memory, {sum(row[1] for row in rows)} without",
    ]
    with capsys.disabled():
        print("", *report, sep="\n")  # noqa: T201 -- what is measured is for whoever runs it


def answered(config, memory, number):
    """Ask one question in a fork of the log, and the same of a model that remembers nothing."""
    question, wanted = QUESTIONS[number]
    with memory.fork(len(SAID), key=f"question-{number}") as fork:
        reply = fork.turn(question)
        status, tokens = fork.status(), reply.tokens
        assert reply.text or reply.calls
        assert status.is_well
        assert 0 < status.memory_bytes <= BUDGET
        sent = (tokens.input or 0) + (tokens.cache_read or 0)
        assert sent > 0
        assert tokens.output
        entries = [one.text for one in fork.thread.entries()]
        assert entries[: len(SAID) + 1] == [*SAID, question]
        assert entries[-1] == reply.text
        assert fork.cost().talk.requests == len(fork.chat.attempts)
        opened = sum(len(message.calls) for message in fork.chat.messages)
    without = asked(config).ask(question).text
    return is_right(reply.text, wanted), is_right(without, wanted), sent, opened, question
