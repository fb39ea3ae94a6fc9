"""JSON schemas of Python types, and values of those types from JSON.

Known are the types of JSON, `Any`, `Literal`, enums, unions, `Annotated` with a description, lists, tuples, mappings,
`TypedDict`, dataclasses, and whatever has `model_json_schema` and `model_validate`, as Pydantic's models do.
"""

import dataclasses
import enum
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from everlog.errors import Mistake
from everlog.messages import JSON

Record = dict[str, Any]

_PLAIN: dict[object, Record] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    tuple: {"type": "array"},
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
}

_LISTS = (list, tuple, set, frozenset, Sequence)
_MAPPINGS = (dict, Mapping)


class Unfit(ValueError):
    """A value does not have the form of its type; the message says where."""


def schema_of(kind: Any, within: tuple[type, ...] = ()) -> Record:
    """Return the JSON schema of a type.

    Args:
        kind: the type.
        within: the classes that it is a part of.

    Raises:
        Mistake: JSON has no form for it, or it is a part of itself.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Required, NotRequired}:
        return schema_of(inner[0], within)
    if origin is Annotated:
        said = [one for one in inner[1:] if isinstance(one, str)]
        return {**schema_of(inner[0], within), **({"description": said[0]} if said else {})}
    if origin is Literal:
        return _choice(list(inner))
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of(one, within) for one in inner]}
    if origin in _LISTS:
        items = [one for one in inner if one is not Ellipsis]
        return {"type": "array", "items": schema_of(items[0] if len(set(items)) == 1 else Any, within)}
    if origin in _MAPPINGS:
        return {"type": "object", "additionalProperties": schema_of(inner[1], within) or True}
    if isinstance(kind, type):
        return _of_class(kind, within)
    if _is_plain(kind):
        return dict(_PLAIN[kind])
    raise _no_form(kind)


def _is_plain(kind: Any) -> bool:
    try:
        return kind in _PLAIN
    except TypeError:
        return False


def _of_class(kind: type, within: tuple[type, ...]) -> Record:
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema())
    if issubclass(kind, enum.Enum):
        return _choice([one.value for one in kind])
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        if kind in within:
            raise Mistake(
                f"{kind.__name__} is a part of itself, which has no form here; give a JSON schema of your own"
            )
        return _of_fields(kind, (*within, kind))
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    raise _no_form(kind)


def _of_fields(kind: type, within: tuple[type, ...]) -> Record:
    """Return the schema of a class with fields; all are asked for, which is what strict schemas want."""
    hints = _fields(kind)
    return {
        "type": "object",
        "properties": {name: schema_of(hint, within) for name, hint in hints.items()},
        "required": list(hints),
        "additionalProperties": False,
    }


def _fields(kind: Any) -> Record:
    """Return the types of the fields of a class by name."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        return hints
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _choice(values: list[Any]) -> Record:
    kinds = {type(value) for value in values}
    return {**(dict(_PLAIN[kinds.pop()]) if len(kinds) == 1 and kinds <= _PLAIN.keys() else {}), "enum": values}


def _no_form(kind: object) -> Mistake:
    name = getattr(kind, "__name__", None) or str(kind)
    return Mistake(
        f"JSON has no form for {name}; use str, int, float, bool, list, dict, Literal, an enum or a dataclass"
    )


def parameters_of(function: Callable[..., Any], reserved: frozenset[str] = frozenset()) -> Record:
    """Return the JSON schema of the arguments of a function; those that are reserved are not in it.

    Descriptions come from `Annotated[…, "words"]`, else from a section `Args:` of the docstring.

    Raises:
        Mistake: JSON has no form for one of them, or it cannot be given by name.
    """
    said = described(inspect.getdoc(function) or "")
    hints = _hints(function)
    properties: Record = {}
    required: list[JSON] = []
    signature = inspect.signature(function)
    is_open = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            is_open = True
        elif parameter.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise Mistake(f"the parameter {name} cannot be given by name; a model has no other way to give it")
        elif name not in reserved:
            try:
                schema = schema_of(hints.get(name, parameter.annotation))
            except Mistake as error:
                raise Mistake(f"the parameter {name}: {error}") from error
            properties[name] = {
                **schema,
                **({"description": said[name]} if name in said and "description" not in schema else {}),
            }
            if parameter.default is inspect.Parameter.empty:
                required.append(name)
    shape: Record = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    definitions = _taken(properties)
    return {**shape, "$defs": definitions} if definitions else shape


def _taken(value: Any) -> Record:
    """Take definitions out of schemas, however deep: what refers to them begins at the root."""
    found: Record = {}
    if isinstance(value, dict):
        found |= value.pop("$defs", {})
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found |= _taken(one)
    return found


def _hints(function: Callable[..., Any]) -> Record:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise Mistake(f"the type of a parameter names something that is not there: {error}") from error


_SECTION = re.compile(r"^(Args|Arguments|Parameters):\s*$", re.MULTILINE)
_ITEM = re.compile(r"^(\s+)(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def described(doc: str) -> dict[str, str]:
    """Return the descriptions in the section `Args:` of a docstring, by name."""
    match = _SECTION.search(doc)
    found: dict[str, list[str]] = {}
    depth: int | None = None
    name = ""
    for line in doc[match.end() :].lstrip("\n").splitlines() if match else ():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or not indent:
            break
        item = _ITEM.match(line)
        if item and (depth is None or indent <= depth):
            depth, name = indent, item[2]
            found[name] = [item[3]]
        elif name:
            found[name].append(line.strip())
    return {name: " ".join(words).strip() for name, words in found.items()}


def value_of(kind: Any, value: Any, where: str = "") -> Any:
    """Return a JSON value as one of a type: enums, dataclasses and models are made, numbers widened, the rest checked.

    Raises:
        Unfit: it does not have the form.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Annotated, Required, NotRequired}:
        return value_of(inner[0], value, where)
    if origin in {Union, types.UnionType}:
        return _of_union(inner, value, where)
    if origin is Literal:
        if value not in inner:
            raise Unfit(f"{where} must be one of {', '.join(map(repr, inner))}")
        return value
    if origin in _LISTS and isinstance(value, list):
        return _listed(origin, inner, value, where)
    if origin in _MAPPINGS and isinstance(value, dict):
        return {name: value_of(inner[1], one, f"{where}.{name}") for name, one in value.items()}
    if isinstance(kind, type):
        return _instance(kind, value, where)
    if origin in {*_LISTS, *_MAPPINGS}:
        raise Unfit(f"{where} must be {'an object' if origin in _MAPPINGS else 'an array'}")
    return value


def _listed(origin: Any, inner: tuple[Any, ...], value: list[Any], where: str) -> Any:
    kinds = [one for one in inner if one is not Ellipsis]
    if origin is tuple and Ellipsis not in inner and len(kinds) != len(value):
        raise Unfit(f"{where} must have {len(kinds)} items")
    each = kinds if origin is tuple and Ellipsis not in inner else kinds[:1] * len(value)
    items = [value_of(one, item, f"{where}[{i}]") for i, (one, item) in enumerate(zip(each, value, strict=True))]
    return items if origin in {list, Sequence} else origin(items)


def _of_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    exact = [kind for kind in kinds if isinstance(kind, type) and type(value) is kind]
    if exact:
        return value
    for kind in kinds:
        try:
            return value_of(types.NoneType if kind is None else kind, value, where)
        except Unfit:
            continue
    raise Unfit(f"{where} has none of the forms that it may have")


def _instance(kind: type, value: Any, where: str) -> Any:
    if hasattr(kind, "model_validate"):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise Unfit(f"{where} does not have the form of {kind.__name__}") from error
    if issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise Unfit(f"{where} must be one of {', '.join(repr(one.value) for one in kind)}") from error
    if is_typeddict(kind) or dataclasses.is_dataclass(kind):
        return _of_record(kind, value, where)
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if kind in {str, int, float, bool, list, dict, types.NoneType} and type(value) is not kind:
        raise Unfit(f"{where} must be {_PLAIN[kind]['type']}")
    return tuple(value) if kind is tuple and isinstance(value, list) else value


def _of_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Unfit(f"{where} must be an object")
    hints = _fields(kind)
    if unknown := [name for name in value if name not in hints]:
        raise Unfit(f"{where} has no field {', '.join(unknown)}")
    made = {name: value_of(hints[name], one, f"{where}.{name}") for name, one in value.items()}
    if is_typeddict(kind):
        return made
    try:
        return kind(**made)
    except TypeError as error:
        raise Unfit(f"{where} lacks a field") from error
