"""What the proxy counts of itself, in the text form of Prometheus (version 0.0.4). Nothing global, no I/O.

A label is a word out of a few: never an id, an address, a model's name or a text.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Sample = tuple[str, tuple[str, ...], float]
"""Name of a family, the values of its labels, a number."""

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Borders of the histogram."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("everlog_info", "gauge", "The version that runs.", ("version",)),
    Family("everlog_requests_total", "counter", "Requests that ended.", ("route", "protocol", "status")),
    Family("everlog_request_seconds", "histogram", "From a request to the end of its answer.", ("route",)),
    Family("everlog_received_bytes_total", "counter", "Bytes of bodies of requests.", ("route",)),
    Family("everlog_sent_bytes_total", "counter", "Bytes of bodies of answers.", ("route",)),
    Family("everlog_requests_in_flight", "gauge", "Requests under way."),
    Family("everlog_upstream_failures_total", "counter", "Requests without a whole answer.", ("kind",)),
    Family("everlog_clients_left_total", "counter", "Clients that went away before the end of their answer."),
    Family("everlog_exchanges_total", "counter", "Exchanges, by what became of them in the log.", ("decision",)),
    Family("everlog_degraded_total", "counter", "What could not be done beside an answer.", ("place",)),
    Family("everlog_held_too_long_total", "counter", "Ends of answers that went out before they were kept."),
    Family("everlog_recording", "gauge", "Requests and answers that are being kept, or wait for it."),
    Family(
        "everlog_memory_requests_total", "counter", "Requests of conversations, by their mode of memory.", ("mode",)
    ),
    Family("everlog_memory_outcomes_total", "counter", "Requests with memory, by what it made of them.", ("outcome",)),
    Family("everlog_hidden_rounds_total", "counter", "Rounds of memory's tools that no client saw."),
    Family("everlog_prefixes_total", "counter", "Requests compared with the one before, by who broke it.", ("by",)),
    Family("everlog_prefix_lost_bytes_total", "counter", "Bytes to be read anew, by who broke the prefix.", ("by",)),
    Family("everlog_tokens_total", "counter", "Tokens that providers counted.", ("kind",)),
    Family("everlog_cost_usd_total", "counter", "What requests cost whose price is known."),
    Family("everlog_unpriced_total", "counter", "Answered requests whose price nobody knows."),
)
"""All of them, in the order of the page. Names are a promise: a test holds the list."""


class Metrics:
    """Counts, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, tuple[str, ...]], float] = {}
        self._buckets: dict[tuple[str, tuple[str, ...]], list[int]] = {}

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter or a gauge."""
        with self._lock:
            key = name, labels
            self._sums[key] = self._sums.get(key, 0) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram."""
        with self._lock:
            key = name, labels
            counts = self._buckets.setdefault(key, [0] * (len(SECONDS) + 1))
            counts[bisect_left(SECONDS, seconds)] += 1
            self._sums[key] = self._sums.get(key, 0) + seconds

    def page(self, more: Iterable[Sample] = ()) -> bytes:
        """Return all of it as text; `more` are numbers that others count."""
        with self._lock:
            found = dict(self._sums)
            buckets = {key: list(counts) for key, counts in self._buckets.items()}
        for name, labels, value in more:
            found[name, labels] = found.get((name, labels), 0) + value
        lines: list[str] = []
        for family in FAMILIES:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            mine = sorted((labels, value) for (name, labels), value in found.items() if name == family.name)
            if not mine and not family.labels:
                mine = [((), 0)]
            for labels, value in mine:
                if family.kind == "histogram":
                    lines += _histogram(family, labels, value, buckets[family.name, labels])
                else:
                    lines.append(_line(family.name, dict(zip(family.labels, labels, strict=True)), value))
        return ("\n".join(lines) + "\n").encode()


def _histogram(family: Family, labels: tuple[str, ...], total: float, counts: list[int]) -> Iterable[str]:
    said = dict(zip(family.labels, labels, strict=True))
    reached = 0
    for border, count in zip((*map(_number, SECONDS), "+Inf"), counts, strict=True):
        reached += count
        yield _line(f"{family.name}_bucket", {**said, "le": border}, reached)
    yield _line(f"{family.name}_sum", said, total)
    yield _line(f"{family.name}_count", said, reached)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{said}}} {_number(value)}" if said else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
