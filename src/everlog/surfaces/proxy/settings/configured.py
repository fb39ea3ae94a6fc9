"""The proxy as options of a command, the environment and a file of settings make it. Pure.

An option wins over the environment, the environment over the file, the file over what is usual. Each key counts by
itself. A key that is not known is a mistake that names the nearest one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

import msgspec

from everlog.access import Mode
from everlog.chat.options import meant
from everlog.errors import Mistake
from everlog.surfaces.config_file import OURS
from everlog.surfaces.proxy.settings.options import IDENTITY_HEADERS, MB, Options, Target
from everlog.surfaces.proxy.settings.schema import Proxy, Upstream, is_waiting

VARIABLES = {
    "EVERLOG_HOST": ("server", "host"),
    "EVERLOG_PORT": ("server", "port"),
    "EVERLOG_LOG_LEVEL": ("server", "log_level"),
    "EVERLOG_LOG_FORMAT": ("server", "log_format"),
    "EVERLOG_UPSTREAM": ("upstream", "base_url"),
    "EVERLOG_UPSTREAM_KEY": ("upstream", "api_key"),
    "EVERLOG_MODE": ("memory", "mode"),
    "EVERLOG_BUDGET": ("memory", "budget_tokens"),
}
"""What the environment may say of the proxy."""

OPTIONS = {
    "upstream.base_url": "--upstream",
    "server.host": "--host",
    "server.port": "--port",
    "memory.mode": "--mode",
    "memory.budget_tokens": "--budget",
}
"""What `everlog serve` may be told of it."""

SECRETS = frozenset({"api_key"})
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "bool | null": "true or false",
    "object": "a section",
    "array": "a list",
    "null": "nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One key, and who says so."""

    key: str
    """`server.port`."""
    value: object
    named_by: str
    """An option, a variable, the file, or `the default`."""
    is_waiting: bool = False
    """Whether it is read and checked, and does nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The proxy as it is to run."""

    proxy: Proxy
    named_by: Mapping[str, str] = field(default_factory=dict)
    """By key, what says it, but for defaults."""

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can reach it."""
        return self.proxy.server.host in LOOPBACK

    @property
    def needs_keys(self) -> bool:
        """Whether nobody gets in without a key."""
        return self.proxy.keys.required or not self.is_local

    @property
    def needs_database(self) -> bool:
        """Whether there is anything to keep, or to look up."""
        return self.mode != "off" or self.needs_keys

    @property
    def mode(self) -> Mode:
        """What is done with conversations, unless a request or a key says otherwise."""
        return self.proxy.memory.mode if self.proxy.memory.enabled else "off"

    @property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """Further headers that say who asks, by what they say."""
        said = self.proxy.request_context
        if not said.enabled:
            return {}
        return {
            "session": said.session_headers,
            "user": said.user_headers,
            "project": said.project_headers,
            "cwd": said.cwd_headers,
        }

    @property
    def waiting(self) -> list[str]:
        """Keys that say something, and do nothing yet."""
        return [key for key in self.named_by if is_waiting(key)]

    def options(self) -> Options:
        """Return what the relay is told.

        Raises:
            Mistake: there is no upstream, or one cannot be.
        """
        proxy = self.proxy
        if not proxy.upstream.base_url:
            raise Mistake(
                "there is no upstream: name the server that has the models by --upstream URL, EVERLOG_UPSTREAM, or base_url "
                "below upstream in the file of settings"
            )
        further = tuple(_target(one.name, one, models=one.models) for one in proxy.upstreams)
        hidden = dict.fromkeys(name.lower() for names in self.aliases.values() for name in names)
        sessions = {name.lower() for name in proxy.request_context.session_headers}
        return Options(
            targets=(_target("default", proxy.upstream), *further),
            mode=self.mode,
            budget_tokens=proxy.memory.budget_tokens,
            memory_tools=proxy.memory.tools,
            usage=proxy.memory.usage,
            body_bytes=round(proxy.server.body_limit_mb * MB),
            origins=proxy.server.origins,
            forward_to_headroom=proxy.request_context.forward_to_headroom,
            aliases=self.aliases,
            identity_headers=(*IDENTITY_HEADERS, *(name for name in hidden if name not in sessions)),
        )

    def values(self) -> Iterator[Value]:
        """Yield all keys, in the order of the schema; what is secret is told by its beginning."""
        for key, value in _flat("", msgspec.to_builtins(self.proxy)):
            is_secret = key.rpartition(".")[2] in SECRETS and value
            shown = f"{str(value)[:3]}…" if is_secret else value
            said = self.named_by.get(key, "the default")
            yield Value(key=key, value=shown, named_by=said, is_waiting=is_waiting(key))


def configured(
    *,
    file: Mapping[str, Any] | None = None,
    path: str = "the file of settings",
    environment: Mapping[str, str],
    given: Mapping[str, Any] | None = None,
) -> Configured:
    """Return the proxy that file, environment and options come to.

    Args:
        file: what the file holds.
        path: how the file is called.
        environment: the variables.
        given: options of the command by key, such as `server.port`; None is not said.

    Raises:
        Mistake: a key is not known, or a value is not of its kind.
    """
    whole: dict[str, Any] = {name: value for name, value in (file or {}).items() if name not in OURS}
    _refuse_unknown(whole, Proxy, path, "")
    if isinstance(memory := whole.get("memory"), dict) and memory.get("mode") is False:
        whole = _set(whole, "memory", "mode", "off")  # which YAML reads as false
    named_by = {key: path for key, _ in _flat("", whole)}
    for variable, (section, name) in VARIABLES.items():
        if environment.get(variable):
            whole = _set(whole, section, name, environment[variable])
            named_by[f"{section}.{name}"] = variable
    for key, value in (given or {}).items():
        if value is not None:
            section, _, name = key.partition(".")
            whole = _set(whole, section, name, value)
            named_by[key] = OPTIONS.get(key, "an option")
    try:
        return Configured(proxy=msgspec.convert(whole, Proxy, strict=False), named_by=named_by)
    except msgspec.ValidationError as error:
        raise Mistake(_said(str(error), named_by, path)) from None


def _set(whole: dict[str, Any], section: str, name: str, value: object) -> dict[str, Any]:
    held = whole.get(section, {})
    return {**whole, section: {**held, name: value}} if isinstance(held, dict) else whole  # which says what is wrong


def _target(name: str, said: Upstream, *, models: tuple[str, ...] = ()) -> Target:
    return Target(
        name=name,
        base_url=said.base_url,
        key=said.api_key or None,
        passes_credentials=said.passthrough_authorization,
        protocols=said.protocols,
        provider=said.provider or None,
        models=models,
        system=said.system,
        tools=said.tools,
        headers=tuple(said.headers.items()),
        connect_s=said.connect_seconds,
        silence_s=said.timeout_seconds,
    )


def _refuse_unknown(found: Mapping[str, Any], section: Any, path: str, where: str) -> None:
    """Make sure that all keys are known, to any depth.

    Raises:
        Mistake: one is not.
    """
    known = {one.name: one.type for one in msgspec.structs.fields(section)}
    for name, value in found.items():
        if name not in known:
            raise Mistake(f"{path}: {where or 'it'} has no {name!r}{meant(name, known)}")
        inner = known[name]
        items = value if isinstance(value, list) else [value]
        held = next((one for one in (inner, *getattr(inner, "__args__", ())) if _is_section(one)), None)
        for one in items:
            if held is not None and isinstance(one, dict):
                _refuse_unknown(one, held, path, f"{where}.{name}".lstrip("."))


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _flat(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each key and its value; lists and free mappings are values."""
    if isinstance(value, dict) and (not where or where in _SECTIONS):
        for name, one in value.items():
            yield from _flat(f"{where}.{name}".lstrip("."), one)
        return
    if where == "upstreams" and isinstance(value, list | tuple):
        value = [{**one, "api_key": "…"} if isinstance(one, dict) and one.get("api_key") else one for one in value]
    yield where, value


_SECTIONS = frozenset(one.name for one in msgspec.structs.fields(Proxy))


def _said(error: str, named_by: Mapping[str, str], path: str) -> str:
    """Return what is wrong with a value, without the value: it may be a key."""
    what, _, where = error.partition(" - at ")
    key = where.strip("`").removeprefix("$.")
    for word, ours in _WORDS.items():
        what = what.replace(f"`{word}`", ours)
    if what.startswith("Invalid enum value"):
        what = f"{what.removeprefix('Invalid enum value ')} is none of {', '.join(_words(key))}"
    if what.startswith("Object missing required field"):
        what = f"it needs {what.removeprefix('Object missing required field ').strip('`')}"
    return f"{named_by.get(key, path)}: {key or 'it'}: {what[:1].lower()}{what[1:]}"


def _words(key: str) -> tuple[str, ...]:
    """Return the words that a key may be."""
    kind: Any = Proxy
    for name in re.sub(r"\[.*?\]", "", key).split("."):
        kind = next(one for one in _kinds(kind) if _is_section(one))
        kind = next(one.type for one in msgspec.structs.fields(kind) if one.name == name)
    return next(get_args(one) for one in _kinds(kind) if get_origin(one) is Literal)


def _kinds(kind: object) -> tuple[object, ...]:
    """Return a kind and those of its items."""
    return (kind, *get_args(kind))
