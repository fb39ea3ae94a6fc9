"""ChatGPT's export: what comes out of it is what was in it, in both ages of the form."""

import json
import zipfile
from pathlib import Path

import pytest

from everlog.importers import Limits, Problem, detect
from everlog.messages import Call, Conversation, Media, Origin, Result, Unknown
from tests.unit.importers.saying import SAMPLES, said, take

OLD = SAMPLES / "chatgpt" / "2023" / "conversations.json"
NEW = SAMPLES / "chatgpt" / "2026"

GLUE = "chatgpt:6a1b0c2d-0000-4000-8000-000000000001"
GLUE_ORIGIN = Origin(session="6a1b0c2d-0000-4000-8000-000000000001")
CHECKS = "chatgpt:6f000000-0000-4000-8000-00000000000a"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member in sorted(NEW.rglob("*")):
            if member.is_file():
                file.write(member, f"backup/{member.relative_to(NEW)}")
        file.writestr("__MACOSX/backup/._conversations-000.json", "junk")
    return path


def test_an_export_of_2023_comes_in_with_branches_and_without_what_was_deleted():
    taken = take(OLD)
    question = said("user", "Which glue holds ash to oak in a wet locker?", at="2023-03-28T10:40:00.25Z", id="q1")
    other = (
        said("user", "Which glue holds ash to ash?", at="2023-03-28T10:41:40Z", id="q1b"),
        said("assistant", "Polyurethane, clamped for a day.", at="2023-03-28T10:41:45Z", id="a4", model="gpt-4"),
    )
    assert taken.format == "chatgpt"
    assert taken.found == [
        Conversation(
            key=GLUE,
            title="Glue for the locker",
            origin=GLUE_ORIGIN,
            messages=(
                question,
                said(
                    "assistant",
                    "A thickened epoxy; ash and oak both move.",
                    at="2023-03-28T10:40:31Z",
                    id="a2",
                    model="gpt-4",
                ),
                said("user", "And the colour?", at="2023-03-28T10:41:00Z", id="q2"),
                said("assistant", "Tint it with wood flour.", at="2023-03-28T10:41:02Z", id="a3", model="gpt-4"),
            ),
        ),
        Conversation(
            key=f"{GLUE}#a1",
            title="Glue for the locker",
            origin=GLUE_ORIGIN,
            parent=GLUE,
            shared=1,
            messages=(
                question,
                said(
                    "assistant",
                    "Any wood glue will do.",
                    at="2023-03-28T10:40:04.5Z",
                    id="a1",
                    model="text-davinci-002-render-sha",
                ),
            ),
        ),
        Conversation(
            key=f"{GLUE}#q1b",
            title="Glue for the locker",
            origin=GLUE_ORIGIN,
            messages=(*other, said("user", "Which clamp?", at="2023-03-28T10:41:50Z", id="q3")),
        ),
        Conversation(
            key=f"{GLUE}#q3b",
            title="Glue for the locker",
            origin=GLUE_ORIGIN,
            parent=f"{GLUE}#q1b",
            shared=2,
            messages=(*other, said("user", "Which cramp?", at="2023-03-28T10:42:00Z", id="q3b")),
        ),
        Problem(where="conversations.json", reason="it has no mapping of messages", position=2),
        Conversation(
            key="chatgpt:6a1b0c2d-0000-4000-8000-000000000003",
            origin=Origin(session="6a1b0c2d-0000-4000-8000-000000000003"),
            messages=(
                said("system", "I build boats.\nBe brief.", at="2023-03-28T11:13:20Z", id="ci"),
                said("user", "Only a thought, never answered.", at="2023-03-28T11:13:21Z", id="u"),
            ),
        ),
    ]
    assert taken.counts() == {
        "unknown": {},
        "skipped": {"empty system message": 1, "node without message": 1},
        "assumed": {"time missing, taken from the conversation": 1},
    }


def test_an_archive_of_2026_comes_in_with_tools_attachments_and_hidden_nodes(archive: Path):
    taken = take(archive)
    main, fork, circle, short = taken.found
    assert isinstance(main, Conversation)
    assert main.title == "Checks in the larch"
    assert main.origin == Origin(session="6f000000-0000-4000-8000-00000000000a", project="g-p-boats")
    assert main.messages == (
        said(
            "system",
            "Preferred name: Mara\nRole: boat builder\nAnswer in metric units.",
            at="2026-01-05T08:00:00Z",
            id="s2",
            meta={"hidden": True},
        ),
        said(
            "system",
            "1. Mara owns a clinker dinghy.",
            at="2026-01-05T08:00:00Z",
            id="s3",
            meta={"hidden": True},
        ),
        said(
            "user",
            "What is wrong with this plank?\nAnd with this one?",
            at="2026-01-05T08:00:00.125Z",
            id="u1",
            parts=(
                Media(
                    media_type="image/png",
                    content=(NEW / "file-Kq3vT9Zx-plank.png").read_bytes(),
                    url="file-service://file-Kq3vT9Zx",
                    name="plank.png",
                ),
                Media(
                    media_type="image/png",
                    content=(NEW / "file_00000000ab12cd34-sanitized.png").read_bytes(),
                    url="sediment://file_00000000ab12cd34",
                    name="file_00000000ab12cd34-sanitized.png",
                    offset=30,
                ),
                Unknown(source="chatgpt", value={"content_type": "hologram_pointer", "hologram": "h-1"}, offset=49),
                Media(
                    media_type="application/pdf",
                    content=(NEW / "file-Lm5notes.dat").read_bytes(),
                    url="file-Lm5notes",
                    name="survey.pdf",
                    offset=49,
                ),
                Media(media_type="text/plain", url="file-Zz9gone", name="lost.txt", offset=49),
            ),
        ),
        said(
            "tool_call",
            "python import math\nprint(math.pi * 0.35 ** 2)",
            at="2026-01-05T08:00:08Z",
            id="c1",
            model="gpt-5-thinking",
            parts=(Call(call_id="c1", name="python", arguments="import math\nprint(math.pi * 0.35 ** 2)"),),
            meta={"language": "python"},
        ),
        said(
            "tool_result",
            "0.38484510006474965",
            at="2026-01-05T08:00:09Z",
            id="r1",
            author="python",
            parts=(Result(call_id="c1", name="python"),),
        ),
        said(
            "tool_call",
            'web.run {"search_query":[{"q":"larch plank checks"}]}',
            at="2026-01-05T08:00:10Z",
            id="c2",
            model="gpt-5-thinking",
            parts=(Call(call_id="c2", name="web.run", arguments='{"search_query":[{"q":"larch plank checks"}]}'),),
            meta={"channel": "commentary", "language": "unknown"},
        ),
        said(
            "tool_result",
            "Checks follow the rays.",
            at="2026-01-05T08:00:11Z",
            id="r2",
            author="web.run",
            parts=(Result(call_id="c2", name="web.run"),),
            meta={"url": "https://wood.example/larch", "title": "Larch and its checks"},
        ),
        said(
            "tool_result",
            "Oak checks less.",
            at="2026-01-05T08:00:12Z",
            id="r3",
            author="web.run",
            parts=(Result(call_id="c2", name="web.run"),),
            meta={"url": "https://wood.example/oak", "title": "Oak"},
        ),
        said(
            "tool_result",
            "That page may not be read.",
            at="2026-01-05T08:00:13Z",
            id="r4",
            author="web.run",
            parts=(Result(call_id="c2", name="web.run", failed=True),),
            meta={"error": "RobotsDisallowed"},
        ),
        said(
            "assistant",
            "Both planks have checks along the rays.\nFill them; do not replace them.",
            at="2026-01-05T08:00:15Z",
            id="a1",
            model="gpt-5-thinking",
            meta={"channel": "final"},
        ),
        said(
            "user",
            "Thank you. Draw me the scarf joint.",
            at="2026-01-05T08:01:40Z",
            id="v1",
            parts=(Media(media_type="audio/wav", url="sediment://file_00000000voice01", offset=35),),
        ),
        said(
            "tool_call",
            'dalle.text2im {"prompt":"a scarf joint, 8:1"}',
            at="2026-01-05T08:01:41Z",
            id="b1",
            model="gpt-5",
            parts=(Call(call_id="b1", name="dalle.text2im", arguments='{"prompt":"a scarf joint, 8:1"}'),),
            meta={"language": "json"},
        ),
        said(
            "tool_result",
            "",
            at="2026-01-05T08:02:00Z",
            id="d1",
            author="dalle.text2im",
            parts=(
                Result(call_id="b1", name="dalle.text2im"),
                Media(
                    media_type="image/png",
                    content=(NEW / "dalle-generations" / "file_00000000dalle77-0001.png").read_bytes(),
                    url="sediment://file_00000000dalle77",
                    name="file_00000000dalle77-0001.png",
                ),
            ),
        ),
        said(
            "assistant",
            "",
            at="2026-01-05T08:02:01Z",
            id="w1",
            model="gpt-5",
            parts=(
                Unknown(
                    source="chatgpt",
                    value={"content_type": "super_widget", "widget": {"kind": "slider", "range": [6, 12]}},
                ),
            ),
        ),
        said("note", "Fine.", at="2026-01-05T08:02:02Z", id="k1", author="critic"),
    )
    assert fork == Conversation(
        key=f"{CHECKS}#a1b",
        title="Checks in the larch",
        origin=main.origin,
        parent=CHECKS,
        shared=9,
        messages=(
            *main.messages[:9],
            said(
                "assistant",
                "Replace both.",
                at="2026-01-05T08:00:16Z",
                id="a1b",
                model="gpt-5-thinking",
                meta={"status": "in_progress"},
            ),
        ),
    )
    assert circle == Problem(
        where="export.zip:backup/conversations-001.json", reason="messages follow each other in a circle", position=1
    )
    assert short == Conversation(
        key="chatgpt:6f000000-0000-4000-8000-00000000000c",
        title="Short",
        origin=Origin(session="6f000000-0000-4000-8000-00000000000c"),
        messages=(said("user", "Still there?", at="2026-01-05T10:00:00Z", id="x"),),
    )
    assert taken.counts() == {
        "unknown": {"hologram_pointer": 1, "super_widget": 1, "role critic": 1},
        "skipped": {
            "empty system message": 1,
            "attachment not in the export": 2,
            "reasoning": 3,
            "empty user message": 1,
        },
        "assumed": {"time without zone, taken as UTC": 1, "time missing, taken from the conversation": 2},
    }


def test_the_bare_file_gives_the_same_words_with_attachments_by_name_only(archive: Path):
    from_archive = take(archive).conversations[0]
    from_file = take(NEW / "conversations-000.json").conversations[0]
    assert [message.text for message in from_file.messages] == [message.text for message in from_archive.messages]
    media = [part for message in from_file.messages for part in message.parts if isinstance(part, Media)]
    assert [(part.content, part.name) for part in media] == [
        (None, "plank.png"),
        (None, None),
        (None, "survey.pdf"),
        (None, "lost.txt"),
        (None, None),
        (None, None),
    ]


def test_an_attachment_above_the_limit_is_named_but_not_taken(archive: Path):
    taken = take(archive, limits=Limits(attachment_bytes=60))
    media = [part for part in taken.conversations[0].messages[2].parts if isinstance(part, Media)]
    assert [(part.name, part.content is None) for part in media] == [
        ("plank.png", True),
        ("file_00000000ab12cd34-sanitized.png", True),
        ("survey.pdf", False),
        ("lost.txt", True),
    ]
    assert taken.tally.skipped["attachment above the limit"] == 3


def test_a_branch_keeps_its_key_when_it_grows_or_another_one_becomes_the_active_one(tmp_path: Path):
    (conversation, *_) = json.loads(OLD.read_text())
    conversation["mapping"]["a1"]["children"] = ["more"]
    conversation["mapping"]["more"] = {
        "id": "more",
        "parent": "a1",
        "children": [],
        "message": {"id": "more", "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Any?"]}},
    }
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    grown = take(path).conversations
    assert [(found.key, len(found.messages)) for found in grown] == [
        (GLUE, 4),
        (f"{GLUE}#a1", 3),
        (f"{GLUE}#q1b", 3),
        (f"{GLUE}#q3b", 3),
    ]
    conversation["current_node"] = "more"
    path.write_text(json.dumps([conversation]))
    switched = take(path).conversations
    assert [(found.key, len(found.messages)) for found in switched] == [
        (GLUE, 3),
        (f"{GLUE}#a2", 4),
        (f"{GLUE}#q1b", 3),
        (f"{GLUE}#q3b", 3),
    ]


@pytest.mark.parametrize(
    "wrap", [lambda found: {"conversations": found}, lambda found: found[0]], ids=["wrapped", "single"]
)
def test_a_single_conversation_and_a_wrapped_list_are_taken_too(wrap, tmp_path: Path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(wrap(json.loads(OLD.read_text())[:1]), indent=1))
    assert detect(path) == "chatgpt"
    assert [found.key for found in take(path).conversations] == [found.key for found in take(OLD).conversations[:4]]


def test_a_result_answers_the_nearest_call_of_its_tool_in_its_turn(tmp_path: Path):
    def node(place: str, parent: str | None, role: str, name: str | None = None, recipient: str = "all"):
        message = {
            "id": place,
            "author": {"role": role, "name": name},
            "content": {"content_type": "text", "parts": [place]},
            "recipient": recipient,
        }
        return {"id": place, "parent": parent, "children": [], "message": message}

    nodes = [
        node("q", None, "user"),
        node("first", "q", "assistant", recipient="browser"),
        node("second", "first", "assistant", recipient="python"),
        node("of first", "second", "tool", name="browser"),
        node("of second", "of first", "tool", name="nobody"),
        node("q2", "of second", "user"),
        node("of none", "q2", "tool", name="browser"),
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"id": "x", "mapping": {n["id"]: n for n in nodes}, "current_node": "of none"}]))
    results = [message.result for message in take(path).only.messages if message.result]
    assert results == [
        Result(call_id="first", name="browser"),
        Result(call_id="second", name="nobody"),
        Result(call_id="of none", name="browser"),
    ]


def test_a_conversation_without_an_id_is_named_after_its_nodes(tmp_path: Path):
    (conversation, *_) = json.loads(OLD.read_text())
    del conversation["id"]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    once, again = take(path).conversations[0].key, take(path).conversations[0].key
    assert once == again
    assert len(once) == len("chatgpt:") + 32
