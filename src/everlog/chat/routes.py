"""From the name of a model to the way to it: model, provider, address, key, and the protocol that is spoken there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from everlog.chat.effects import Timeouts
from everlog.chat.options import Concurrency, concurrency_of, meant, refuse_unknown
from everlog.chat.providers import Endpoint, endpoint
from everlog.chat.retries import Retry
from everlog.clock import Clock, SystemClock
from everlog.errors import Mistake, UnknownModel, expect
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Thinking
from everlog.registry import Model, Provider, Registry, builtin


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConfig:
    """Where chats find keys and addresses, and what they do where nobody says otherwise."""

    default_model: str | None = None
    """The model of a chat that names none."""
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys by provider; by default they are read from the environment, such as OPENAI_API_KEY."""
    base_urls: Mapping[str, str] = field(default_factory=dict)
    """Other addresses of providers, or of servers that speak like them."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """The protocol to speak with a provider, such as chat_completions with openai."""
    tool_concurrency: Concurrency | None = None
    """How the tool calls of one reply run; None is one after the other."""
    clock: Clock = field(default_factory=SystemClock, repr=False)
    """Where time and chance come from."""
    timeouts: Timeouts = Timeouts()
    """The longest silences of a connection."""
    retry: Retry = Retry()
    """How often, and how patiently, a request is sent again."""
    registry: Registry | None = field(default=None, repr=False)
    """What is known of models and providers; None is what ships with Everlog."""
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    """What stands for the environment of the process."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Refuse what there is no field for."""
        refuse_unknown(given, tuple(one.name for one in fields(cls)), "ChatConfig")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        concurrency_of(self.tool_concurrency, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to a model."""

    model: Model
    provider: Provider
    endpoint: Endpoint
    registry: Registry
    asked: str | None = None
    """The protocol that its user asked for."""
    configured: str | None = None
    """The protocol that is configured for the provider."""

    @property
    def name(self) -> str:
        """Provider and id."""
        return f"{self.provider.name}/{self.model.id}"

    @property
    def protocol(self) -> str:
        """The protocol to speak: the one asked for, else the configured one, else the provider's choice.

        Raises:
            Mistake: the provider does not speak it.
        """
        return self.registry.protocol(self.model, self.asked or self.configured)

    @property
    def is_private(self) -> bool:
        """Whether it leads to a server of its user's own, or to a model that nobody else knows."""
        is_known = (self.provider.name, self.model.id) in self.registry.models
        return not is_known or self.endpoint.base_url != self.provider.base_url.rstrip("/")

    @property
    def default_limit(self) -> int | None:
        """The limit of an answer that is sent where nobody sets one; only one protocol demands it."""
        return self.model.output_tokens if self.protocol == "anthropic" else None

    def thinking(self, said: Thinking | None) -> Thinking | None:
        """Return what this model is told of thinking; nothing if it never thinks."""
        return None if self.model.reasons is False else said

    def under(self, config: ChatConfig) -> "Route":
        """Return the way to the same model, provider and protocol by another config."""
        return resolved(config, self.model.id, self.provider.name, self.asked, assume_exists=True)


def resolved(
    config: ChatConfig, name: str | None, provider: str | None, protocol: str | None, *, assume_exists: bool
) -> Route:
    """Return the way to the model that a name means.

    Raises:
        UnknownModel: nobody knows it.
        MissingCredentials: its provider wants a key.
        Mistake: no name and no default, no such provider, or a model is assumed to exist at none.
    """
    name = _named(config, name)
    if assume_exists and provider is None:
        raise Mistake("assume_model_exists needs provider=: nobody else says where the model is")
    registry = config.registry or builtin()
    _refuse_strangers(config, registry, protocol)
    model = registry.find(name, provider=provider, assume_exists=assume_exists)
    place = registry.provider(model.provider)
    return Route(
        model=model,
        provider=place,
        endpoint=endpoint(
            place,
            environ=os.environ if config.environ is None else config.environ,
            api_key=config.api_keys.get(place.name),
            base_url=config.base_urls.get(place.name),
        ),
        registry=registry,
        asked=protocol,
        configured=config.protocols.get(place.name),
    )


def _refuse_strangers(config: ChatConfig, registry: Registry, asked: str | None) -> None:
    """Make sure that no provider or protocol is named that nobody knows: what is misspelt would be found out late.

    Whether a provider speaks a protocol is asked when a request is made, since the model may change before.
    """
    for field_name in ("api_keys", "base_urls", "protocols"):
        for name in getattr(config, field_name):
            if name not in registry.providers:
                known = ", ".join(registry.providers)
                near = meant(name, registry.providers)
                raise Mistake(f"{field_name} of the config has no provider {name!r}; known are {known}{near}")
    for protocol in (*config.protocols.values(), *([] if asked is None else [asked])):
        expect(protocol, str, "a protocol is a str or None")
        if protocol not in FORMATS:
            raise Mistake(
                f"there is no protocol {protocol!r}; there are {', '.join(FORMATS)}{meant(protocol, FORMATS)}"
            )


def _named(config: ChatConfig, name: str | None) -> str:
    expect(name, (str, type(None)), "the name of a model is a str or None")
    found = name or config.default_model
    if not found:
        raise Mistake('name a model, as in Chat("openai/gpt-5.6-luna"), or give ChatConfig(default_model=…)')
    return found


def instead(given: str | Model, own: Route, config: ChatConfig) -> Route:
    """Return the way to a model that is tried where a chat's own one fails.

    Where the own way is a private one, a name that nobody knows is a model there, asked in the same protocol.

    Raises:
        UnknownModel: nobody knows it.
        MissingCredentials: its provider wants a key.
    """
    if isinstance(given, Model):
        return resolved(config, given.id, given.provider, None, assume_exists=True)
    try:
        return resolved(config, given, None, None, assume_exists=False)
    except UnknownModel:
        if not own.is_private:
            raise
        return resolved(config, given, own.provider.name, own.asked, assume_exists=True)


def opened(
    config: ChatConfig | None,
    name: str | None,
    *,
    provider: str | None = None,
    protocol: str | None = None,
    assume_exists: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
) -> tuple[ChatConfig, Route]:
    """Return the config and the route of a new chat; an address alone is that of a server that speaks like OpenAI's.

    Raises:
        UnknownModel: nobody knows the model.
        MissingCredentials: its provider wants a key.
        Mistake: no name and no default, no such provider, or a model is assumed to exist at none.
    """
    expect(config, (ChatConfig, type(None)), "a config is a ChatConfig or None")
    config = config or ChatConfig()
    if base_url is None and api_key is None:
        return config, resolved(config, name, provider, protocol, assume_exists=assume_exists)
    name, registry = _named(config, name), config.registry or builtin()
    if base_url is not None and provider is None and not _is_known(registry, name):
        provider, assume_exists, protocol = "openai", True, protocol or "chat_completions"
    place = registry.find(name, provider=provider, assume_exists=assume_exists).provider
    config = replace(
        config,
        base_urls=config.base_urls if base_url is None else {**config.base_urls, place: base_url},
        api_keys=config.api_keys if api_key is None else {**config.api_keys, place: api_key},
    )
    return config, resolved(config, name, provider, protocol, assume_exists=assume_exists)


def _is_known(registry: Registry, name: str) -> bool:
    """Whether a name says at which provider its model is."""
    head, _, rest = name.partition("/")
    return bool(rest and head in registry.providers) or any(
        (one, name) in registry.models for one in registry.providers
    )
