"""A run: clients talk through the proxy, which is killed again and again; at the end the log is held against what they know."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import aiohttp

from everlog import access
from everlog.store import open_store
from tests.load import proof
from tests.load.clients import Client, Dialogue
from tests.load.provider import Provider
from tests.load.serving import Sample, Server
from tests.load.tries import Try

KILLS_WITHIN = 0.55
"""The share of a run in which the proxy is killed, but for its starts; in the rest one sees whether it grows."""

LAST_WORDS_S = 20
"""How long clients may take for their last answers."""

REST_S = 20
SPARE_FILES = 16
"""Files that an idle proxy may hold open more than at its start: connections to its database."""

MOST_MB = 250
MOST_GROWTH = 1.25
LONG_S = 240
"""From which length of a run on it is judged whether memory grows."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What happened in a run, and what is wrong."""

    seconds: float
    dialogues: list[Dialogue]
    kills: int
    samples: list[Sample]
    first_files: int
    last_files: int
    pages: Counter[str]
    """What the proxy counted of itself, in all its lives."""
    threads: int = 0
    entries: int = 0
    lost: list[Try] = field(default_factory=list)
    """Acknowledged before they were kept, and not there when the proxy was killed."""
    gone: list[Try] = field(default_factory=list)
    """Of these, those that are not there at the end."""
    faults: list[str] = field(default_factory=list)

    @property
    def tries(self) -> list[Try]:
        """All requests."""
        return [one for dialogue in self.dialogues for one in dialogue.tries]


async def run(
    home: Path, *, seconds: float, clients: int, kills: int, seed: int, say: Callable[[str], None]
) -> Outcome:
    """Let clients talk for so long.

    Args:
        home: an empty folder.
        seconds: how long.
        clients: how many, at once.
        kills: how often the proxy is killed and started again.
        seed: of all that is left to chance.
        say: is told how it goes.
    """
    tries: dict[str, Try] = {}
    numbers = count(1)
    async with Provider(tries) as provider:
        server = Server(home, provider.url)
        made = [
            Client(n, server=server, tries=tries, numbers=numbers, seed=seed, key=key)
            for n, key in enumerate(_keys(home / "everlog.db", clients))
        ]
        try:
            await server.start()
            outcome = await _talk(server, provider, made, seconds, kills, say)
            status = await server.stop()
        finally:
            server.end()
    outcome.faults += [fault for client in made for fault in client.surprises]
    outcome.faults += [f"the proxy ended with {status}"] if status else []
    outcome.faults += [f"the proxy said: {server.said}"] if server.said else []
    await asyncio.to_thread(_judge, outcome, server, home / "everlog.db", say)
    return outcome


def _keys(path: Path, clients: int) -> list[str]:
    """Make a key for each client."""
    with open_store(path) as store:
        return [store.write(proof.TENANT, partial(access.create), name="load").token for _ in range(clients)]


async def _talk(
    server: Server,
    provider: Provider,
    clients: Sequence[Client],
    seconds: float,
    kills: int,
    say: Callable[[str], None],
) -> Outcome:
    began = time.monotonic()
    first = server.sample()
    assert first is not None
    pages: Counter[str] = Counter()
    async with asyncio.timeout(seconds + LAST_WORDS_S * (kills + 2)):
        talks = asyncio.gather(*(client.talk(began + seconds) for client in clients))
        watch = asyncio.create_task(_watch(server, clients, began, say))
        try:
            for n in range(kills):
                await asyncio.sleep(seconds * KILLS_WITHIN / (kills + 1))  # from when it takes requests
                pages.update(await _page(server))
                say(f"kill -9, {n + 1} of {kills}")
                await server.kill()
                await server.start()
            await talks
        finally:
            watch.cancel()
            talks.cancel()
    provider.hang_up()
    pages.update(await _page(server))
    dialogues = [dialogue for client in clients for dialogue in client.dialogues]
    return Outcome(
        seconds=time.monotonic() - began, dialogues=dialogues, kills=kills, samples=server.samples,
        first_files=first.files, last_files=await _at_rest(server, first.files + SPARE_FILES), pages=pages,
    )  # fmt: skip


async def _watch(server: Server, clients: Sequence[Client], began: float, say: Callable[[str], None]) -> None:
    """Look every second at what the proxy takes, and say now and then how it goes."""
    for n in count(1):
        await asyncio.sleep(1)
        sample = server.sample()
        if n % 10 == 0 and sample is not None:
            seen = Counter(one.outcome for client in clients for talk in client.dialogues for one in talk.tries)
            told = f"{seen.total()} requests, {seen['acknowledged']} answered, {sample.rss_mb:.0f} MB, {sample.files} files"
            say(f"{time.monotonic() - began:4.0f} s: {told}")


async def _page(server: Server) -> Counter[str]:
    """Return the numbers that the proxy shows of itself."""
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = round(float(value))
    return found


async def _at_rest(server: Server, enough: int) -> int:
    """Return how many files the proxy holds open when nobody asks any more."""
    for _ in range(REST_S * 10):
        sample = server.sample()
        assert sample is not None
        if sample.files <= enough:
            return sample.files
        await asyncio.sleep(0.1)
    return server.samples[-1].files


def _judge(outcome: Outcome, server: Server, path: Path, say: Callable[[str], None]) -> None:
    """Hold the log against what the clients know: as each kill left it, and as it is at the end."""
    faults, tries = outcome.faults, outcome.tries
    for life, copy in enumerate(server.copies, 1):
        say(f"reading the log as kill {life} left it")
        threads, broken = proof.read(copy)
        faults += [f"after kill {life}: {what}" for what in broken]
        for one in proof.missing(threads, tries, life):
            outcome.lost.append(one)
            if proof.was_kept_first(one):
                faults.append(f"after kill {life}: {one.mark} was acknowledged and is missing ({one.held_s:.3f} s)")
    say("reading the log as it is at the end")
    threads, broken = proof.read(path)
    faults += [f"at the end: {what}" for what in broken]
    gone = proof.missing(threads, outcome.lost, outcome.kills + 1)
    outcome.gone = [one for one in gone if not proof.was_kept_first(one)]
    faults += proof.faults_of(threads, outcome.dialogues, frozenset(one.mark for one in outcome.gone))
    outcome.threads, outcome.entries = len(threads), sum(len(thread.own) for thread in threads)
    faults += _grown(outcome)


def _grown(outcome: Outcome) -> list[str]:
    """Say what the proxy took too much of."""
    most = max(sample.rss_mb for sample in outcome.samples)
    faults = [f"it took {most:.0f} MB"] if most > MOST_MB else []
    if outcome.last_files > outcome.first_files + SPARE_FILES:
        faults.append(f"{outcome.last_files} files were open when nobody asked, {outcome.first_files} at the start")
    last = [sample.rss_mb for sample in outcome.samples if sample.life == outcome.kills]
    part = len(last) // 5
    if outcome.seconds >= LONG_S and median(last[-part:]) > MOST_GROWTH * median(last[part : 2 * part]):
        faults.append(f"memory grew from {median(last[part : 2 * part]):.0f} to {median(last[-part:]):.0f} MB")
    return faults
