"""Facts about models and providers: limits, abilities, prices, addresses. Data, read at the first question.

`models.json` is generated and trimmed; `newer.toml` is kept by hand and laid over it; `providers.toml` is kept by hand.
Nothing here is fetched, and nothing here may stop a call: a model that nobody knows works where its user says that it
exists.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from everlog.errors import Mistake, UnknownModel
from everlog.registry.facts import Caching, Model, Price, Provider

__all__ = ["Caching", "Model", "Price", "Provider", "Registry", "builtin", "load"]


class Registry:
    """Models and providers by name."""

    def __init__(self, models: Mapping[tuple[str, str], Model], providers: Mapping[str, Provider]) -> None:
        """Hold models by (provider, id), and providers by name, the first to be asked first."""
        self.models = models
        self.providers = providers

    def provider(self, name: str) -> Provider:
        """Return a provider.

        Raises:
            Mistake: there is none of that name.
        """
        if name not in self.providers:
            raise Mistake(f"no provider is called {name!r}; known are {', '.join(self.providers)}")
        return self.providers[name]

    def find(self, name: str, *, provider: str | None = None, assume_exists: bool = False) -> Model:
        """Return the model that a name means: `id`, or `provider/id`.

        Args:
            name: for a provider that is given it is the id, whatever it looks like.
            provider: where to look; by default the first provider that has it.
            assume_exists: take a model that nobody knows, with nothing known of it.

        Raises:
            UnknownModel: nobody knows it.
            Mistake: no such provider, or `assume_exists` without one.
        """
        head, _, rest = name.partition("/")
        if provider is None and rest and head in self.providers:
            provider, name = head, rest
        if provider is None:
            found = next((self.models[one, name] for one in self.providers if (one, name) in self.models), None)
            if found is None and assume_exists:
                raise Mistake(f"a model that is assumed to exist needs a provider: one of {', '.join(self.providers)}")
        else:
            place = self.provider(provider)
            found = self.models.get((provider, name))
            if found is None and (assume_exists or place.local):
                found = Model(id=name, provider=provider)
        if found is None:
            raise UnknownModel(self._unknown(name, provider))
        return found

    def protocol(self, model: Model, name: str | None = None) -> str:
        """Return the protocol in which to talk to a model: the one that is asked for, else the provider's choice.

        Raises:
            Mistake: the provider does not speak the one that is asked for.
        """
        place = self.provider(model.provider)
        if name is not None:
            if name not in place.protocols:
                raise Mistake(f"{place.name} speaks {', '.join(place.protocols)}, not {name}")
            return name
        chosen = (protocol for pattern, protocol in place.exceptions if re.search(pattern, model.id))
        return next(chosen, place.protocols[0])

    def caching(self, model: Model) -> Caching:
        """Return how prompts to a model are cached, as far as is known."""
        place = self.provider(model.provider)
        return next((one for one in place.caches if re.search(one.models, model.id)), Caching())

    def _unknown(self, name: str, provider: str | None) -> str:
        ids = [one for place, one in self.models if provider in {None, place}]
        near = difflib.get_close_matches(name, ids, n=3)
        where = f" of {provider}" if provider else ""
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        return f"no model{where} is called {name!r}{hint} For a new or private one give provider= and assume_model_exists=True"


@cache
def builtin() -> Registry:
    """Return what ships with Everlog."""
    return load((files(__name__) / "models.json").read_text("utf-8"))


def load(models_json: str) -> Registry:
    """Return a registry over another table of models, as `trim.trimmed` makes one; the rest is what ships."""
    folder = files(__name__)
    table = json.loads(models_json)
    models = {(row["provider"], row["id"]): _model(row) for row in table["models"]}
    newer = tomllib.loads((folder / "newer.toml").read_text("utf-8"))
    providers = tomllib.loads((folder / "providers.toml").read_text("utf-8"))
    for provider, changes in newer.items():
        if isinstance(changes, dict):
            _update(models, provider, changes, is_newer=newer["as_of"] >= table["as_of"])
    return Registry(models, {name: _provider(name, row) for name, row in providers.items()})


def _update(
    models: dict[tuple[str, str], Model], provider: str, changes: Mapping[str, Mapping[str, Any]], *, is_newer: bool
) -> None:
    """Lay changes over the models of a provider; those that are older than the table only fill what it leaves open."""
    for name, row in changes.items():
        known = models.get((provider, name)) or models.get((provider, row.get("like", name)))
        if known is None:
            continue
        fields = {field: value for field, value in row.items() if field != "like"}
        if "prices" in fields:
            fields["prices"] = tuple(Price(**price) for price in fields["prices"])
        if "reasons_by" in fields:
            fields["reasons_by"] = tuple(fields["reasons_by"])
        if not is_newer and (provider, name) in models:
            fields = {field: value for field, value in fields.items() if not getattr(known, field)}
        models[provider, name] = replace(known, **fields, id=name)


def _model(row: dict[str, Any]) -> Model:
    prices = tuple(Price(**price) for price in row.get("prices", ()))
    lists = {field: tuple(row.get(field, ())) for field in ("takes", "reasons_by")}
    return Model(**{**row, **lists, "prices": prices})


def _provider(name: str, row: dict[str, Any]) -> Provider:
    exceptions = tuple((one["models"], one["protocol"]) for one in row.get("exceptions", ()))
    lists = {field: tuple(row.get(field, ())) for field in ("protocols", "key_names")}
    caches = tuple(Caching(**one) for one in row.get("caches", ()))
    return Provider(**{**row, **lists, "name": name, "exceptions": exceptions, "caches": caches})
