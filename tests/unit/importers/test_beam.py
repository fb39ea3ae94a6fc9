"""BEAM: batches of turns, or plans of batches; dates carry on until the next."""

import json
from pathlib import Path

from everlog.importers import Problem
from everlog.messages import Conversation, Origin
from tests.unit.importers.saying import SAMPLES, said, take

MAIN = {"question_type": "main_question"}


def test_a_talk_comes_in_word_for_word_with_the_date_of_its_batch():
    taken = take(SAMPLES / "beam" / "boat" / "chat.json")
    march, april = "2024-03-15T00:00:00Z", "2024-04-05T00:00:00Z"
    assert taken.format == "beam"
    assert taken.found == [
        Conversation(
            key="beam:boat-91951223",
            origin=Origin(session="boat-91951223"),
            messages=(
                said("user", "Plan the refit. ->-> 1,1", at=march, id="0", meta={"index": "1,1"} | MAIN),
                said("assistant", "First the keel.", at=march, id="1"),
                said(
                    "user", "And then?", at=march, id="2", meta={"index": "1,2", "question_type": "followup_question"}
                ),
                said("assistant", "Then the planks.", at=march, id="3"),
                said("user", "The keel is done. ->-> 2,1", at=april, id="4", meta={"index": "2,1"} | MAIN),
                said("assistant", "Good.", at=april, id="5"),
            ),
        )
    ]
    assert taken.counts() == {"unknown": {}, "skipped": {}, "assumed": {"time missing, taken from the conversation": 4}}


def test_plans_are_one_talk_and_a_date_that_does_not_exist_is_left_out():
    taken = take(SAMPLES / "beam" / "long" / "chat.json")
    may = "2024-05-02T00:00:00Z"
    assert taken.found == [
        Conversation(
            key="beam:long-e5365717",
            origin=Origin(session="long-e5365717"),
            messages=(
                said("user", "A.", at=may, id="plan-1:0", meta={"index": "1,1"} | MAIN),
                said("assistant", "B.", at=may, id="plan-1:1"),
                said("user", "C.", at=may, id="plan-2:0", meta={"index": "1,1"} | MAIN),
                said("assistant", "D.", at=may, id="plan-2:1"),
            ),
        )
    ]
    assert taken.tally.assumed == {
        "time not understood, left out": 1,
        "time missing, taken from the conversation": 3,
    }


def test_a_broken_batch_makes_the_talk_a_problem(tmp_path: Path):
    batches = json.loads((SAMPLES / "beam" / "boat" / "chat.json").read_text())
    del batches[1]["turns"][0][1]["content"]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(batches))
    assert take(path).found == [Problem(where="chat.json", reason="a message of it has no content", position=2)]
