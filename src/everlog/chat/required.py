"""The rule of a required protocol: whoever must keep words private says which API alone may see them. Pure."""

from typing import TYPE_CHECKING

from everlog.errors import Mistake, ProtocolError, expect
from everlog.protocols import FORMATS

if TYPE_CHECKING:
    from everlog.chat.talk import Talk


def known(protocol: str | None) -> str | None:
    """Return a protocol that can be required, or None for none.

    Raises:
        Mistake: there is no such protocol.
    """
    expect(protocol, (str, type(None)), "`required_protocol` is a str or None")
    if protocol is not None and protocol not in FORMATS:
        raise Mistake(f"no protocol {protocol!r} can be required; it is one of {', '.join(FORMATS)}")
    return protocol


def require(chat: "Talk", protocol: str | None) -> None:
    """Make sure that a chat speaks a protocol, and each of its fallbacks the same at the same provider.

    Raises:
        ProtocolError: it does not.
    """
    if protocol is None:
        return
    (provider, spoken), *fallbacks = chat.wires
    if spoken != protocol:
        raise ProtocolError(
            f"the protocol {protocol} is required, and {provider}/{chat.model.id} is asked in {spoken}; "
            f"build its chat with protocol={protocol!r}"
        )
    for model, wire in zip(chat.fallbacks, fallbacks, strict=True):
        if wire != (provider, protocol):
            raise ProtocolError(
                f"the protocol {protocol} is required, and the fallback {wire[0]}/{model.id} is asked in {wire[1]}; "
                f"a fallback is at the same provider, {provider}, and asked in the same protocol"
            )
