"""The settings of a chat: each `with_…` checks what it gets, keeps it, and returns the chat, so that calls chain."""

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Literal, Self

from everlog.chat.hooks import Hooks
from everlog.chat.options import (
    ToolOptions,
    caching_of,
    changed,
    compaction_of,
    errors_of,
    headers_of,
    json_of,
    mapping_of,
    number_of,
    thinking_of,
)
from everlog.chat.provider_tools import ProviderTool, provider_tools_of
from everlog.chat.retries import TRANSIENT
from everlog.chat.routes import ChatConfig, instead, resolved
from everlog.chat.structured import as_schema
from everlog.chat.tools import Tool, as_tool
from everlog.errors import expect
from everlog.messages import JSON
from everlog.protocols.exchange import Schema, Thinking
from everlog.registry import Model, Provider


class Settings(Hooks):
    """What is set on a chat."""

    @property
    def model(self) -> Model:
        """The model that requests go to."""
        return self._state.route.model

    @property
    def provider(self) -> Provider:
        """The provider of the model."""
        return self._state.route.provider

    @property
    def config(self) -> ChatConfig:
        """Where keys, addresses and defaults come from."""
        return self._state.config

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return MappingProxyType(self._state.tools)

    @property
    def tool_options(self) -> ToolOptions:
        """How the model uses the tools."""
        return self._state.tool_options

    @property
    def fallbacks(self) -> tuple[Model, ...]:
        """The models that are tried when this one fails, in order."""
        return tuple(route.model for route in self._state.fallbacks)

    @property
    def fallback_errors(self) -> tuple[type[BaseException], ...]:
        """The errors after which they are tried."""
        return self._state.fallback_errors

    @property
    def temperature(self) -> float | None:
        """The temperature; None is the model's own."""
        return self._state.temperature

    @property
    def max_output_tokens(self) -> int | None:
        """The most tokens that an answer may have; None is the model's own limit."""
        return self._state.max_output_tokens

    @property
    def thinking(self) -> Thinking | None:
        """What was said of thinking, as the model of now is told; None where it is told nothing."""
        return self._state.route.thinking(self._state.thinking)

    @property
    def schema(self) -> Schema | None:
        """The form that answers are to have."""
        return self._state.schema

    @property
    def caching(self) -> Literal[False] | Mapping[str, JSON] | None:
        """Options of caching; False if it is off, None if nobody said anything."""
        return self._state.caching

    @property
    def citations(self) -> bool:
        """Whether answers are to back their claims with passages of attached files."""
        return self._state.citations

    @property
    def compaction(self) -> Literal[False] | Mapping[str, JSON] | None:
        """Options of compaction; False if it is off, None if nobody said anything."""
        return self._state.compaction

    @property
    def provider_tools(self) -> tuple[ProviderTool, ...]:
        """Tools that run at the provider."""
        return self._state.provider_tools

    @property
    def end_user(self) -> str | None:
        """Whom the provider is told that this is for."""
        return self._state.end_user

    @property
    def provider_options(self) -> Mapping[str, Any]:
        """What is laid over each request."""
        return MappingProxyType(self._state.provider_options)

    @property
    def headers(self) -> Mapping[str, str]:
        """What is sent with each request."""
        return MappingProxyType(self._state.headers)

    def with_model(
        self,
        name: str | None,
        *,
        provider: str | None = None,
        protocol: str | None = None,
        assume_model_exists: bool = False,
    ) -> Self:
        """Talk to another model; None is the configured one. All else that was set stays, but for the protocol.

        Raises:
            UnknownModel: nobody knows it.
            MissingCredentials: its provider wants a key.
            Mistake: no such provider, or a model is assumed to exist at none.
        """
        self._state.route = resolved(self._state.config, name, provider, protocol, assume_exists=assume_model_exists)
        return self

    def with_config(self, config: ChatConfig | None) -> Self:
        """Take keys, addresses and defaults from elsewhere; model, provider and protocol stay. None is the default."""
        expect(config, (ChatConfig, type(None)), "a config is a ChatConfig or None")
        self._state.config = config or ChatConfig()
        self._state.route = self._state.route.under(self._state.config)
        self._state.fallbacks = tuple(route.under(self._state.config) for route in self._state.fallbacks)
        return self

    def with_tools(self, *tools: Any) -> Self:
        """Add functions, or classes or objects with a method `execute`, that the model may call; None removes all.

        A tool takes the place of an older one of its name; options stay.

        Raises:
            Mistake: one is no tool, or JSON has no form for what it takes.
        """
        if tools == (None,):
            self._state.tools.clear()
        given = [one for some in tools for one in (some if isinstance(some, list | tuple) else [some])]
        for made in [as_tool(one) for one in given if one is not None]:
            self._state.tools[made.name] = made
        return self

    def with_tool_options(self, **options: Any) -> Self:
        """Say how the model uses its tools; what is not named stays, None is the default.

        Args:
            options: `choice` is auto, none, required, a tool or its name. `calls` is many or one, in one reply.
                `concurrency` is True or threads, fibers, or False: how the calls of one reply run.

        Raises:
            Mistake: there is no such option, or no such value of it.
        """
        default = self._state.config.tool_concurrency
        self._state.tool_options = changed(self._state.tool_options, options, self._state.tools, default)
        return self

    def with_fallbacks(self, *models: str | Model | None, on: Any = TRANSIENT) -> Self:
        """Try other models, in order, where this one fails; None removes them.

        Args:
            models: their names, or models of the registry. Where the chat's own model, or its server, is a private one, a name
                that nobody knows is a model there.
            on: the errors after which the next is tried; by default those that pass by themselves.

        Raises:
            Mistake: one is no model, or no class of errors.
        """
        given = [one for one in models if one is not None]
        for one in given:
            expect(one, (str, Model), "a fallback is the name of a model or a Model")
        self._state.fallbacks = tuple(instead(one, self._state.route, self._state.config) for one in given)
        self._state.fallback_errors = errors_of(on) if given else TRANSIENT
        return self

    def with_temperature(self, temperature: float | None) -> Self:
        """Set the temperature; None is the model's own."""
        self._state.temperature = number_of(temperature, "a temperature", least=0)
        return self

    def with_max_output_tokens(self, tokens: int | None) -> Self:
        """Limit the tokens of an answer; None removes the limit."""
        self._state.max_output_tokens = number_of(tokens, "max_output_tokens", least=1, whole=True)
        return self

    def with_thinking(self, enabled: bool | Mapping[str, Any] = True, **options: Any) -> Self:
        """Have the model think, or not.

        Args:
            enabled: False switches it off; True alone leaves all to the model.
            options: `effort`, passed on as it is; `budget`, a number of tokens; `display`, summarized or omitted.

        Raises:
            Mistake: there is no such option, or it is None.
        """
        self._state.thinking = thinking_of(enabled, options)
        return self

    def with_schema(self, schema: Any) -> Self:
        """Ask for answers of a form; None asks for words again.

        Args:
            schema: a JSON schema, `{name, schema, strict, description}`, a dataclass, a TypedDict, or anything with
                `model_json_schema`. The answer's `parsed` is its value.
        """
        self._state.schema = as_schema(schema)
        return self

    def with_caching(self, options: bool | Mapping[str, JSON] = True, **named: JSON) -> Self:
        """Have the provider cache the prompt, with its own options, such as ttl; False sends no word of caching.

        Raises:
            Mistake: it is None, or False with options.
        """
        self._state.caching = caching_of(options, named)
        return self

    def with_citations(self, enabled: bool = True) -> Self:
        """Have answers back their claims with passages of attached texts and PDFs, where the provider can do that.

        Raises:
            Mistake: it is neither True nor False.
        """
        expect(enabled, bool, "with_citations takes True or False")
        self._state.citations = enabled
        return self

    def with_compaction(self, options: bool | Mapping[str, JSON] = True, **named: JSON) -> Self:
        """Have the provider condense what does not fit its context any more; False sends no word of it.

        Args:
            options: `at`, the tokens of input from which on; `instructions` for the summary; `pause_after`, to end the
                turn there. A protocol that lacks one leaves it out.
            named: the same.

        Raises:
            Mistake: there is no such option, it is None, or False has options.
        """
        self._state.compaction = compaction_of(options, named)
        return self

    def with_provider_tools(self, *tools: str | Mapping[str, Any] | None, **named: Mapping[str, Any]) -> Self:
        """Add tools that run at the provider; None alone removes all.

        Args:
            tools: names, such as web_search or code_execution, or whole tools in the provider's words.
            named: names with options in the provider's words.

        Raises:
            Mistake: one is none of these. Names that the protocol lacks are refused when it is asked.
        """
        if tools == (None,) and not named:
            self._state.provider_tools = ()
        self._state.provider_tools += provider_tools_of(tools, named)
        return self

    def with_end_user(self, end_user: str | None) -> Self:
        """Tell the provider for whom this is, by an id that says nothing about the person; None removes it."""
        expect(end_user, (str, type(None)), "an end user is a str or None")
        self._state.end_user = end_user
        return self

    def with_provider_options(self, options: Mapping[str, Any] | None) -> Self:
        """Lay fields over each request, in the provider's words, in the place of earlier ones; None removes them."""
        self._state.provider_options = deepcopy(json_of(mapping_of(options, "provider options"), "provider options"))
        return self

    def with_headers(self, headers: Mapping[str, str] | None) -> Self:
        """Send headers with each request, in the place of earlier ones; None removes them. The provider's own win."""
        self._state.headers = headers_of(headers)
        return self
