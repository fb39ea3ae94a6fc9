"""What may be given as a compactor, and what becomes of it: a name, a chat, a function that makes one, or code.

Neither chat nor HTTP is loaded until a model is meant.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from everlog.errors import Mistake, ProtocolError
from everlog.memory.interface import Compactor
from everlog.memory.tree.extractive import Extractive

if TYPE_CHECKING:
    from collections.abc import Callable

    from everlog.chat.chat import Chat
    from everlog.chat.routes import ChatConfig

EXTRACTIVE = "extractive"

Given: TypeAlias = "str | Compactor | Chat | Callable[[], Chat]"
"""`extractive`, the name of a model, a compactor, a chat that is ready, or a function without arguments that makes one."""


def compactor_of(
    given: Given,
    *,
    options: Mapping[str, Any] | None = None,
    required_protocol: str | None = None,
    config: "ChatConfig | None" = None,
) -> Compactor:
    """Return the compactor that is meant.

    Args:
        given: `extractive`, which needs no model; the name of a model; a `Chat`, of which model, settings and callbacks
            count; a function without arguments that makes one; or what is a compactor already.
        options: how to reach a model that is named: `provider`, `protocol`, `assume_model_exists`, `base_url`, `api_key`,
            `config`, as `Chat` takes them.
        required_protocol: the only protocol in which anybody may be asked.
        config: where a model that is named finds keys and addresses, unless the options say so.

    Raises:
        ProtocolError: another protocol would be spoken, or nobody can say which.
        Mistake: it is nothing that answers, or there is no such option, model or key.
    """
    if is_compactor(given):
        _refuse_options(options, f"the compactor {cast('Compactor', given).model}")
        return _checked(cast("Compactor", given), required_protocol)
    if given == EXTRACTIVE:
        _refuse_options(options, "extractive")
        return Extractive()
    chats = import_module("everlog.pump.chats")
    if isinstance(given, str):
        return cast("Compactor", chats.named(given, options or {}, required_protocol, config))
    _refuse_options(options, "a chat that is ready")
    return cast("Compactor", chats.given(given, required_protocol))


def is_compactor(given: object) -> bool:
    """Return whether something answers requests by itself: it is called with one, and has a name as `model`."""
    return callable(given) and not isinstance(given, type) and isinstance(getattr(given, "model", None), str)


def _refuse_options(options: Mapping[str, Any] | None, what: str) -> None:
    if options:
        raise Mistake(f"{what} takes no options; {', '.join(options)} of a compactor are for the name of a model")


def _checked(compactor: Compactor, required: str | None) -> Compactor:
    """Return a compactor that keeps to a required protocol.

    Raises:
        ProtocolError: it does not say so, and is no code of this process.
    """
    if required is None or getattr(compactor, "inline", False):
        return compactor
    spoken = getattr(compactor, "protocol", None)
    if spoken != required:
        says = "does not say which it speaks (in an attribute `protocol`)" if spoken is None else f"speaks {spoken}"
        raise ProtocolError(f"the protocol {required} is required, and the compactor {compactor.model} {says}")
    return compactor
