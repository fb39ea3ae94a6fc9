"""Text of unusual sizes and scripts, through all commands that a person would use on it."""

import json

import pytest

from tests.acceptance.cli import Everlog, said

ARABIC = (
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643\u0645 \u202babc 123\u202c \u200f\u0627\u0644\u0642\u0627\u0631\u0628 "
)
HEBREW = "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05b9\u05dc\u05b8\u05dd "
ZALGO = "".join(f"{letter}\u0301\u0302\u0323\u0489" for letter in "a boat in the harbour ")
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 "


@pytest.mark.parametrize("words", [ARABIC, HEBREW, ZALGO, FAMILY], ids=["arabic", "hebrew", "combining", "joined"])
def test_text_that_runs_from_the_right_or_is_combined_is_kept_folded_found_and_opened(everlog: Everlog, words: str):
    texts = [f"{n} {words * 30}".strip() for n in range(40)]
    everlog.home.joinpath("odd.jsonl").write_bytes(said(*texts))
    everlog.good("import", "odd.jsonl", "--thread", "odd")
    assert [json.loads(line)["text"] for line in everlog.good("export", "odd").out.splitlines()] == texts
    everlog.good("pump")
    for budget in (300, 2000, 20_000):
        view = everlog.good("view", "odd", "--bytes", budget).out
        assert len(view) <= budget
        assert view.decode()
    assert everlog.good("read", "odd", 7, "--json").json["text"] == f"assistant: {texts[7]}"
    assert everlog.good("zoom", "odd", 7, "--json").status == 0
    done = everlog("search", "odd", *words.split()[-1:])
    assert (done.status, done.err.count("\n")) == ((2, 1) if words == FAMILY else (0, 0))
    assert words == FAMILY or "39" in done.text


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hundred_thousand_messages_of_one_word_go_in_and_a_view_of_them_fits(everlog: Everlog):
    everlog.home.joinpath("short.jsonl").write_bytes(said(*(f"word{n}" for n in range(100_000))))
    everlog.good("import", "short.jsonl", "--thread", "short")
    assert everlog.good("threads", "--json").json[0]["entries"] == 100_000
    everlog.good("pump")
    assert len(everlog.good("view", "short", "--bytes", 300).out) <= 300
    lines = everlog.good("export", "short").out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == [f"word{n}" for n in range(100_000)]
    assert everlog.good("verify", "--json").json == {"threads": 1, "entries": 100_000, "faults": []}
