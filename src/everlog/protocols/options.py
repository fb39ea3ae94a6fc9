"""Options that both of OpenAI's protocols spell alike, and the error for those that a protocol does not have."""

from collections.abc import Mapping

from everlog.errors import Mistake
from everlog.messages import JSON
from everlog.protocols.exchange import Settings
from everlog.protocols.shapes import Record, given


def refuse_others(options: Mapping[str, JSON], allowed: tuple[str, ...], what: str) -> None:
    """Raise unless all options are among the allowed ones.

    Raises:
        Mistake: naming the valid ones.
    """
    if others := sorted(set(options) - set(allowed)):
        raise Mistake(f"{what} takes {', '.join(allowed)} here, not {', '.join(others)}")


def cache_options(settings: Settings, *, marked: bool) -> Record:
    """Return the fields that ask OpenAI for caching; `marked` is whether the history has explicit boundaries.

    Raises:
        Mistake: an option that OpenAI does not have.
    """
    asked = settings.caching or {}
    refuse_others(asked, ("key", "ttl", "mode"), "caching")
    options = given(mode=asked.get("mode", "explicit" if marked else None), ttl=asked.get("ttl"))
    return given(prompt_cache_key=asked.get("key"), prompt_cache_options=options or None)
