"""What is killed in `test_crash_asking.py`: a client that sends all of its history each time, kept before it is answered."""

from functools import partial
from pathlib import Path

from everlog import Everlog, context, log
from everlog import open as open_log
from everlog.context import Consumer, Terms
from everlog.conversation.alignment.answers import forgotten
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence, principal_of
from everlog.conversation.alignment.values import Answer, Request
from everlog.conversation.remembering.asking import ask
from everlog.conversation.remembering.wire import Wire
from everlog.messages import Message
from everlog.protocols.exchange import said

ROUNDS = 3


def spoken(rounds: int) -> list[Message]:
    """Return a talk of so many questions and answers."""
    pairs = (
        (Message(kind="user", text=f"question {n}"), Message(kind="assistant", text=f"answer {n}"))
        for n in range(rounds)
    )
    return [one for pair in pairs for one in pair]


def told(folder: Path) -> int:
    path = folder / "told"
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0


def live(folder: Path) -> None:
    """Ask what was not answered yet."""
    with open_log(folder / "everlog.db") as home:
        for n in range(told(folder), ROUNDS):
            exchange(home, tuple(spoken(n + 1)))
            with (folder / "told").open("a", encoding="utf-8") as file:
                file.write(f"{n}\n")
        for n in range(ROUNDS):
            forget(home, f"answer-{n}")


def forget(home: Everlog, id_: str) -> None:
    """Forget the id of an answer."""
    principal = home.store.read(home.name, partial(principal_of, request=Request(messages=(), name="talk")))
    home.store.write(home.name, partial(forgotten, id_=id_, principal=principal), name="record.forget")


def known(home: Everlog) -> list[str]:
    """Return the ids of answers that can be named."""
    principal = home.store.read(home.name, partial(principal_of, request=Request(messages=(), name="talk")))
    ids = [f"answer-{n}" for n in range(ROUNDS)]
    return [id_ for id_ in ids if home.store.read(home.name, partial(log.answer, response=id_, principal=principal))]


def exchange(home: Everlog, talk: tuple[Message, ...]) -> None:
    """Keep a request, compile its prompt, and keep its answer."""
    request = Request(messages=talk[:-1], name="talk", session="s")
    presence = Presence(request, home.redact)
    home.store.read(home.name, presence.place)
    wire = Wire.of(said(request.messages), home.redact)
    asked = ask(home.store, home.name, request, presence, wire)
    assert asked is not None
    consumer = Consumer(mode="tree", budget=2_000, renderer="r", family="m")
    terms = Terms(consumer=consumer, open_at=asked.open_at, own=asked.own)
    made = context.prepare(home.store, home.name, asked.thread, terms)
    answer = partial(context.answered, thread=asked.thread, terms=terms, context=made, status="answered")
    record(
        home.store,
        home.name,
        request,
        Answer(messages=talk[-1:], ids=((f"answer-{len(talk) // 2 - 1}", 0),)),
        redact=home.redact,
        presence=presence,
        also=lambda unit, _: answer(unit),
    )


def kept(home: Everlog) -> list[list[str]]:
    """Return the words of each thread there is."""
    return [[entry.text for entry in home.thread(str(one.key)).entries()] for one in home.threads()]
