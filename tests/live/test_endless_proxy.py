"""200 messages through `everlog serve` in mode tree, before a real model whose window is smaller than what was said.

Without memory its server refuses the last of them. That it answers each, and that the words of the third message can be reached
from what it is sent, is proven; whether so small a model says them is printed, never asserted.
"""

import random
from pathlib import Path
from typing import Any

import openai
import pytest

import everlog
from tests.acceptance.proxies import serving, small
from tests.acceptance.sessions import WORDS

pytestmark = pytest.mark.live

MODEL = "smollm2-135m"
WINDOW = 8_192
"""Tokens; see `examples/small_model.py`."""
TURNS = 100
FACT = "The code of the radio is kestrel."
QUESTION = "What is the code of the radio?"


def said(turn: int) -> str:
    words = " ".join(random.Random(turn).choices(WORDS, k=55))
    return FACT if turn == 1 else f"Note {turn} for the log of the harbour: {words}. Say that it is noted."


@pytest.mark.timeout(1800)
def test_two_hundred_messages_outgrow_the_window_and_the_third_stays_within_reach(
    live_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    history: list[Any] = []
    with serving(live_url, tmp_path, mode="tree", **small(tmp_path)) as proxy:
        client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0)

        def ask(text: str) -> str:
            history.append({"role": "user", "content": text})
            answer = client.chat.completions.create(model=MODEL, messages=history, max_tokens=24, temperature=0)
            assert answer.usage is not None
            assert answer.usage.prompt_tokens < WINDOW / 2
            words = answer.choices[0].message.content or "(nothing)"
            history.append({"role": "assistant", "content": words})
            return words

        for turn in range(TURNS):
            ask(said(turn))
        told = ask(QUESTION)
    with pytest.raises(openai.APIStatusError):
        openai.OpenAI(base_url=live_url, api_key="any", max_retries=0).chat.completions.create(
            model=MODEL,
            messages=history,
            max_tokens=24,
        )
    with everlog.open(tmp_path / "everlog.db") as home:
        [row] = home.threads()
        thread = home.thread(row.key)
        assert sum(1 for _ in thread.entries()) >= 2 * TURNS
        assert FACT in thread.tree.zoom(2, 1)
        found = thread.tree.search("radio kestrel").text
        assert "2" in found
        view = thread.tree.view(4_000)
    report = [
        f"asked for the third of {len(history)} messages, it says: {told}",
        f"search: {found}",
        f"in a line of 4,000 bytes: {'kestrel' in view}",
    ]
    with capsys.disabled():
        print("", *report, sep="\n")  # noqa: T201 -- what is measured is for whoever runs it
