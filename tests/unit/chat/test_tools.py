"""Functions and classes as tools: name, description, schema, and values that fit it (D27, D89)."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict

import pytest

from everlog.chat.schemas import Unfit, schema_of, value_of
from everlog.chat.tools import ToolCall, as_tool, snake, tool
from everlog.errors import Mistake


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Place:
    city: str
    at: tuple[float, float] = (0.0, 0.0)


class Trip(TypedDict):
    to: Place
    by: NotRequired[str]


@dataclass
class Node:
    children: "list[Node]"


@dataclass
class Counted:
    name: str
    kinds: ClassVar[int] = 3
    made: int = field(default=0, init=False)


class Defining:
    """Stands for a model of a validation library, with parts."""

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        part = {"type": "object", "properties": {"a": {"type": "string"}}}
        return {"type": "object", "properties": {"part": {"$ref": "#/$defs/Part"}}, "$defs": {"Part": part}}


class Checked:
    """Stands for a model of a validation library."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return {"type": "object", "title": "Checked"}

    @classmethod
    def model_validate(cls, value: Any) -> "Checked":
        if value != {"ok": True}:
            raise ValueError("no")
        return cls(value)


PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "at": {"type": "array", "items": {"type": "number"}}},
    "required": ["city", "at"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[bool], {"type": "array", "items": {"type": "boolean"}}),
        (tuple[int, str], {"type": "array", "items": {}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Size, {"type": "string", "enum": ["s", "l"]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Place, PLACE),
        (Checked, {"type": "object", "title": "Checked"}),
    ],
    ids=str,
)
def test_a_type_has_a_schema(kind, schema):
    assert schema_of(kind) == schema


@pytest.mark.parametrize("kind", [bytes, complex, type, "words", list[bytes]], ids=str)
def test_a_type_without_a_form_in_json_is_refused(kind):
    with pytest.raises(Mistake, match="JSON has no form for"):
        schema_of(kind)


def test_a_class_that_is_a_part_of_itself_is_refused():
    with pytest.raises(Mistake, match="Node is a part of itself"):
        schema_of(Node)


def test_fields_that_nobody_gives_are_not_asked_for():
    assert list(schema_of(Counted)["properties"]) == ["name"]
    assert value_of(Counted, {"name": "a"}, "x") == Counted("a")


def test_definitions_stand_at_the_root_where_references_look_for_them():
    def go(to: list[Defining]) -> None:
        """Go."""

    parameters = as_tool(go).parameters
    items = {"type": "object", "properties": {"part": {"$ref": "#/$defs/Part"}}}
    assert parameters["properties"] == {"to": {"type": "array", "items": items}}
    assert parameters["$defs"] == {"Part": {"type": "object", "properties": {"a": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        (int, 5, 5),
        (int, 5.0, 5),
        (float, 5, 5.0),
        (Any, {"a": 1}, {"a": 1}),
        (Size, "l", Size.LARGE),
        (Place, {"city": "Rome", "at": [1, 2]}, Place("Rome", (1.0, 2.0))),
        (list[Place], [{"city": "Rome"}], [Place("Rome")]),
        (set[int], [1, 1], {1}),
        (dict[str, Size], {"a": "s"}, {"a": Size.SMALL}),
        (Trip, {"to": {"city": "Rome"}, "by": "train"}, {"to": Place("Rome"), "by": "train"}),
        (Place | None, None, None),
        (Place | str, "Rome", "Rome"),
        (int | float, 1, 1),
        (Annotated[str, "x"], "a", "a"),
        (Literal["a"], "a", "a"),
        (tuple, [1], (1,)),
    ],
    ids=str,
)
def test_a_value_becomes_one_of_its_type(kind, value, made):
    assert value_of(kind, value, "x") == made
    assert type(value_of(kind, value, "x")) is type(made)


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (int, "5", "x must be integer"),
        (int, True, "x must be integer"),
        (str, 5, "x must be string"),
        (bool, 1, "x must be boolean"),
        (list[int], 5, "x must be an array"),
        (dict[str, int], [], "x must be an object"),
        (list[int], [1, "a"], r"x\[1\] must be integer"),
        (tuple[int, int], [1], "x must have 2 items"),
        (Size, "m", "x must be one of 's', 'l'"),
        (Literal["a", "b"], "c", "x must be one of 'a', 'b'"),
        (int, 5.5, "x must be integer"),
        (Place, {"at": [1, 2]}, "x lacks a field"),
        (Place, {"city": "Rome", "size": 1}, "x has no field size"),
        (Place, "Rome", "x must be an object"),
        (Place, {"city": 5}, r"x\.city must be string"),
        (int | None, "a", "x has none of the forms"),
        (Checked, {}, "x does not have the form of Checked"),
    ],
    ids=str,
)
def test_a_value_of_another_form_is_refused(kind, value, complaint):
    with pytest.raises(Unfit, match=complaint):
        value_of(kind, value, "x")


def test_a_function_is_a_tool_by_its_signature_and_docstring():
    def find(words: str, most: int = 5, *, size: Annotated[Size, "of the thing"] = Size.SMALL) -> str:
        """Find things.

        Slow for many words.

        Args:
            words: what to look for,
                in any order
            most (int): how many
            size: not this one

        Returns:
            What was found.
        """
        return words * most

    made = as_tool(find)
    assert (made.name, made.description) == ("find", "Find things.\n\nSlow for many words.")
    assert made.parameters == {
        "type": "object",
        "properties": {
            "words": {"type": "string", "description": "what to look for, in any order"},
            "most": {"type": "integer", "description": "how many"},
            "size": {"type": "string", "enum": ["s", "l"], "description": "of the thing"},
        },
        "required": ["words"],
        "additionalProperties": False,
    }
    assert made("ab", 2) == "abab"


@pytest.mark.covers("D89")
def test_a_class_is_a_tool_with_a_name_of_its_own():
    class WeatherTool:
        """Tell the weather."""

        def execute(self, city: str) -> str:
            return city

    class Other:
        name = "said"
        description = "Says."
        parameters = {"type": "object", "properties": {"x": {}}}  # noqa: RUF012 -- as people write it
        requires_approval = True

        def execute(self, **more: Any) -> str:
            return str(more)

    weather, other = as_tool(WeatherTool), as_tool(Other())
    assert (weather.name, weather.description, weather.requires_approval) == ("weather", "Tell the weather.", False)
    assert (other.name, other.description, other.requires_approval) == ("said", "Says.", True)
    assert other.parameters["properties"] == {"x": {}}
    assert other.fitted(ToolCall(id="c", name="said", text='{"x": 1, "y": 2}')) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("name", "snaked"), [("Weather", "weather"), ("WeatherTool", "weather"), ("HTTPGet", "http_get"), ("Tool", "tool")]
)
def test_the_name_of_a_class_becomes_that_of_a_tool(name, snaked):
    assert snake(name) == snaked


def test_what_cannot_be_a_tool_is_refused_with_its_reason():
    def positional(a: int, /) -> None: ...

    def starred(*args: int) -> None: ...

    def unknown(a: bytes) -> None: ...

    def vague(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 -- that is the case

    for function, complaint in [
        (positional, "the tool positional: the parameter a cannot be given by name"),
        (starred, "the tool starred: the parameter args cannot be given by name"),
        (unknown, "the tool unknown: the parameter a: JSON has no form for bytes"),
        (vague, "the tool vague: the type of a parameter names something that is not there"),
        (lambda: None, "'<lambda>' cannot be the name of a tool"),
    ]:
        with pytest.raises(Mistake, match=complaint):
            as_tool(function)
    with pytest.raises(Mistake, match="'a b' cannot be the name of a tool"):
        tool(name="a b")(print)


def test_a_parameter_without_a_type_takes_anything():
    def note(words, count=1):
        """Note."""

    made = as_tool(note)
    assert made.parameters["properties"] == {"words": {}, "count": {}}
    assert made.fitted(ToolCall(id="c", name="note", text='{"words": [1]}')) == {"words": [1]}


def test_values_reach_the_function_in_their_types():
    seen: list[Any] = []

    def go(to: Place, size: Size | None = None) -> None:
        seen.append((to, size))

    made = as_tool(go)
    made.function(**made.fitted(ToolCall(id="c", name="go", text='{"to": {"city": "Rome"}, "size": "l"}')))
    assert seen == [(Place("Rome"), Size.LARGE)]
