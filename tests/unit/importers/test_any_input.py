"""Whatever stands in a file of a form we know, reading it ends in conversations, problems or one clear error."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog.errors import BadImport
from everlog.importers import FORMATS, Limits, read
from everlog.importers import records as windows
from everlog.importers.source import Source
from everlog.messages import Conversation
from tests.unit.importers.saying import SAMPLES

FILES = sorted(path for path in SAMPLES.rglob("*") if path.suffix in {".json", ".jsonl"} and path.name != "user.json")

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["user", "text", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "text", "content", "x"]), inner)
    ),
    max_leaves=6,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a value with each of its keys."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(inner)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_something_else_in_some_place_never_breaks_the_import(
    path: Path, data: st.DataObject, tmp_path: Path
):
    text = path.read_text("utf-8")
    values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        known = [*places(values)] or [([None], 0)]
        container, key = known[data.draw(st.integers(0, len(known) - 1))]
        if data.draw(st.booleans()):
            container[key] = data.draw(anything)
        else:
            del container[key]
    target = tmp_path / path.name
    target.write_bytes(("\n".join(map(json.dumps, values)) if path.suffix == ".jsonl" else json.dumps(values)).encode())
    for form in (None, data.draw(st.sampled_from(FORMATS))):
        try:
            with read(target, form) as reading:
                conversations = [found for found in reading if isinstance(found, Conversation)]
        except BadImport:
            continue
        if reading.format != "everlog":  # which says itself what it shares and where its parts stand
            check(conversations)


def check(conversations: list[Conversation]) -> None:
    """See that forks name what came before them, and that parts stand inside their text."""
    seen: set[str | None] = {None}
    for conversation in conversations:
        assert 0 <= conversation.shared < len(conversation.messages)
        assert conversation.parent is not None or conversation.shared == 0
        assert conversation.parent in seen
        seen.add(conversation.key)
        for message in conversation.messages:
            assert all(getattr(part, "offset", 0) <= len(message.text) for part in message.parts)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60)
    | st.text('[]{}:,"\\ntrue1-e.\ud800 \n', max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_bytes_of_any_kind_are_read_or_refused(content: bytes, tmp_path: Path):
    target = tmp_path / "x"
    target.write_bytes(content)
    try:
        with read(target, "openai") as reading:
            list(reading)
    except BadImport:
        pass


@settings(max_examples=100)
@given(value=anything)
def test_a_list_read_in_pieces_holds_what_the_whole_holds(value: Any, tmp_path_factory: pytest.TempPathFactory):
    """The window grows as a value needs; here it begins at a few bytes."""
    path = tmp_path_factory.getbasetemp() / "pieces.json"
    values = [value, "é😀" * 5, -12.5e-7, [[]], value]
    for indent in (None, 1):
        path.write_text(json.dumps(values, indent=indent, ensure_ascii=False), "utf-8", "surrogatepass")
        with pytest.MonkeyPatch.context() as patch, Source(path, Limits()) as source:
            patch.setattr(windows, "CHUNK_BYTES", 3)
            found = [record.value for record in windows.values(source) if isinstance(record, windows.Value)]
        assert json.dumps(found) == json.dumps(values)
