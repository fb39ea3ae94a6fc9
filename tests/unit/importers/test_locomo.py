"""LoCoMo: two people, sessions in order, pictures as links."""

import json
from pathlib import Path

from everlog.importers import Problem, detect
from everlog.messages import Conversation, Media, Origin
from tests.unit.importers.saying import SAMPLES, said, take

TALKS = SAMPLES / "locomo" / "talks.json"


def test_a_talk_comes_in_by_sessions_with_their_times_and_a_broken_one_is_a_problem():
    taken = take(TALKS)
    assert taken.format == "locomo"
    assert taken.found == [
        Conversation(
            key="locomo:conv-1",
            origin=Origin(session="conv-1"),
            messages=(
                said(
                    "user",
                    "I painted the hull!",
                    at="2024-05-08T13:56:00Z",
                    id="D1:1",
                    author="Ines",
                    meta={"session": 1},
                ),
                said(
                    "user",
                    "It is green.",
                    at="2024-05-08T13:56:00Z",
                    id="D1:2",
                    author="Bo",
                    parts=(Media(media_type="image/jpeg", url="https://pictures.example/hull.jpg", offset=12),),
                    meta={"session": 1, "caption": "a photo of a green hull", "query": "green hull"},
                ),
                said(
                    "user", "Back on the quay.", at="2024-06-03T00:05:00Z", id="D2:1", author="Bo", meta={"session": 2}
                ),
                said("user", "At last.", at="2024-06-03T00:05:00Z", id="D10:1", author="Ines", meta={"session": 10}),
            ),
        ),
        Problem(where="talks.json", reason="turn 1 of its session 1 has no text", position=2),
    ]
    assert taken.tally.assumed == {
        "time without zone, taken as UTC": 3,
        "time not understood, left out": 1,
        "time missing, taken from the conversation": 1,
    }


def test_a_single_talk_without_an_id_is_named_after_its_words(tmp_path: Path):
    (talk, _) = json.loads(TALKS.read_text())
    del talk["sample_id"]
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(talk, indent=1))
    assert detect(path) == "locomo"
    key = take(path).only.key
    assert key.startswith("locomo:")
    assert take(path).only.key == key
