"""The table of models, made from the public one of models.dev: only what Everlog asks for, one model a line."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from everlog.errors import Mistake

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

REASONS_BY = {"effort": "effort", "budget_tokens": "budget"}
"""Names of the ways to say how much a model reasons, there and here."""

ABOVE = "context_over_"
"""How a price for long requests is called: `context_over_200k`."""


def trimmed(source: Mapping[str, Any], providers: Collection[str], as_of: str) -> str:
    """Return the text of a new `models.json`.

    Args:
        source: the parsed `api.json` of models.dev, providers by name.
        providers: those to keep.
        as_of: the day on which the source was read, as 2026-11-30.

    Raises:
        Mistake: it is not that file: a provider is missing, or has no models.
    """
    rows: list[dict[str, Any]] = []
    for provider in providers:
        models = source.get(provider, {}).get("models")
        if not models:
            raise Mistake(f"the table has no models of {provider}; is it the api.json of models.dev?")
        rows += [_row(provider, models[name]) for name in sorted(models) if _talks(models[name])]
    head = f'{{"source":"models.dev (MIT)","as_of":{_encode(as_of)},"models":[\n'
    return head + ",\n".join(map(_encode, rows)) + "\n]}\n"


def _talks(model: Mapping[str, Any]) -> bool:
    """Whether it answers in words: neither an image model nor an embedder."""
    outputs = model.get("modalities", {}).get("output", ())
    return "text" in outputs and bool(model.get("limit", {}).get("context")) and "embedding" not in model["id"]


def _row(provider: str, model: Mapping[str, Any]) -> dict[str, Any]:
    limit, cost = model["limit"], model.get("cost", {})
    row = {
        "provider": provider,
        "id": model["id"],
        "name": model.get("name"),
        "context_tokens": limit["context"],
        "input_tokens": limit.get("input"),
        "output_tokens": limit.get("output") or None,
        "takes": [kind for kind in model.get("modalities", {}).get("input", ()) if kind != "text"] or None,
        "reasons": model.get("reasoning"),
        "reasons_by": [REASONS_BY[kind] for kind in _reasoning_options(model) if kind in REASONS_BY] or None,
        "tools": model.get("tool_call"),
        "schema": model.get("structured_output"),
        "temperature": model.get("temperature"),
        "status": model.get("status"),
        "prices": [_price(0, cost), *_long_prices(cost)] if cost else None,
    }
    return {name: value for name, value in row.items() if value is not None}


def _reasoning_options(model: Mapping[str, Any]) -> list[str]:
    return [one["type"] for one in model.get("reasoning_options") or ()]


def _long_prices(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    sizes = {name: name.removeprefix(ABOVE).removesuffix("k") for name in cost if name.startswith(ABOVE)}
    bands = [(int(size) * 1000, cost[name]) for name, size in sizes.items() if size.isdecimal()]
    return [_price(above, band) for above, band in sorted(bands, key=lambda one: one[0])]


def _price(above: int, cost: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {
        kind: cost[kind] for kind in ("input", "output", "cache_read", "cache_write") if cost.get(kind) is not None
    }
    return {"above_tokens": above, **kinds} if above else kinds
