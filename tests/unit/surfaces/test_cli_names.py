"""What a person types to name a thread, a line or a message."""

from collections.abc import Iterator

import pytest
import typer

import everlog
from everlog import Everlog, UnknownThread
from everlog.surfaces.cli.names import Label, as_label, as_position, proposing, thread_named


@pytest.fixture
def memory() -> Iterator[Everlog]:
    """Threads named as an import names them."""
    with everlog.open(":memory:") as memory:
        for key in ("chatgpt:66f0-aa", "chatgpt:66f1-bb", "boat", "boat-yard", "Ärger"):
            memory.thread(key).append("user", "words")
        memory.thread("chatgpt:66f0-aa").fork(1, "chatgpt:66f0-aa~1")
        memory.thread("chatgpt:66f0-aa").fork(1, "chatgpt:66f0-aa#2")
        memory.thread("boat").fork(1, "x1", title="The Harbour Ferry")
        yield memory


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("boat", "boat"),
        ("boat-", "boat-yard"),
        ("66f1", "chatgpt:66f1-bb"),
        ("chatgpt:66f0", "chatgpt:66f0-aa"),
        ("66f0-aa~", "chatgpt:66f0-aa~1"),
        ("x", "x1"),
    ],
)
def test_the_beginning_of_a_key_names_a_thread_where_it_can_mean_one_alone(memory: Everlog, word: str, key: str):
    assert thread_named(memory, word).key == key


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("bo", "'bo' is the beginning of several threads: 'boat', 'boat-yard'; give more of the key"),
        (
            "66f",
            "'66f' is the beginning of several threads: 'chatgpt:66f0-aa', 'chatgpt:66f1-bb'; give more of the key",
        ),
        ("BOAT-YARD", "no thread 'BOAT-YARD' here; did you mean 'boat-yard'?"),
        ("boat-yord", "no thread 'boat-yord' here; did you mean 'boat-yard' or 'boat'?"),
        ("ärger", "no thread 'ärger' here; did you mean 'Ärger'?"),
        ("ferry", "no thread 'ferry' here; did you mean 'x1'?"),
        ("zzz", "no thread 'zzz' here; `everlog threads` lists the ones there are"),
    ],
)
def test_what_names_no_thread_or_several_is_answered_with_keys_and_never_with_titles(
    memory: Everlog, word: str, said: str
):
    with pytest.raises(UnknownThread) as failed:
        thread_named(memory, word)
    assert str(failed.value) == said


def test_what_only_proposes_takes_no_beginning_of_a_key(memory: Everlog):
    with (
        pytest.raises(UnknownThread, match="no thread 'boat-' here; did you mean 'boat-yard'"),
        proposing(memory, "boat-"),
    ):
        memory.erase(thread="boat-")


def test_a_label_is_read_as_it_is_printed():
    assert as_label("24") == Label(24, None)
    assert as_label("24+8") == as_label("24+8|") == Label(24, 8)
    assert as_position("24") == as_position("24+1") == 24


@pytest.mark.parametrize("word", ["", "x", "+1", "24+", "24-1", "-1", "1.5", "24 1", "9" * 19])
def test_what_is_no_label_is_refused(word: str):
    with pytest.raises(typer.BadParameter, match="neither a position"):
        as_label(word)


def test_a_line_of_several_messages_is_no_position():
    with pytest.raises(typer.BadParameter, match="a line of 8 messages"):
        as_position("24+8")
