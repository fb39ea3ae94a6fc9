"""Each conversation of `tests/corpus/clients` is kept as it states; a new client is a new file there."""

import json

import pytest

from everlog.store import open_store
from tests.unit.proxy.stories import CORPUS, Story


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_request_of_a_client_is_decided_as_stated(path):
    with open_store(":memory:") as store:
        Story(path, store).play()


ASKED_AGAIN = {"examples-asked-again", "open-webui-regenerate", "openai-python-responses-by-id"}
"""In these a request is sent again that was answered to its end, and answered the same: kept before, it is another branch."""


@pytest.mark.parametrize("path", [one for one in CORPUS if one.stem not in ASKED_AGAIN], ids=lambda path: path.stem)
def test_each_request_that_is_kept_before_its_answer_is_decided_as_stated(path):
    with open_store(":memory:") as store:
        Story(path, store, asks=True).play()


def test_the_corpus_has_enough_of_every_client_and_trap():
    stories = [json.loads(path.read_text("utf-8")) for path in CORPUS]
    assert len(stories) >= 40
    assert {story["client"] for story in stories} >= {
        "Claude Code", "Codex", "OpenCode", "Qwen Code", "pi", "aider", "Open WebUI", "openai-python", "anthropic-python",
        "openai-agents", "LangChain", "pydantic-ai", "LlamaIndex", "openai-node", "Vercel AI SDK",
    }  # fmt: skip
    assert all(step.keys() >= {"send", "expect"} for story in stories for step in story["requests"])
