"""What is killed in `test_crash_keys.py`: keys of callers are made, used, revoked and erased, again after each death."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from everlog import Everlog, Mistake, access
from everlog import open as open_log
from everlog.access import Requested

DAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
OLD = "1" * 32
"""Id of a request that is forgotten again."""

NAMES = {"laptop": None, "phone": "u9"}
"""Names of keys, and whose each is."""


def tell(folder: Path, word: str) -> None:
    with (folder / "told").open("a", encoding="utf-8") as told:
        told.write(f"{word}\n")


def told(folder: Path) -> list[str]:
    path = folder / "told"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def make(home: Everlog, folder: Path, name: str) -> None:
    made = home.store.write(home.name, partial(access.create, name=name, user=NAMES[name]), name="keys.create")
    tell(folder, f"{name} {made.token}")


def live(folder: Path) -> None:
    """Do what was not acknowledged yet."""
    with open_log(folder / "everlog.db") as home:
        for name in NAMES:
            if not any(word.startswith(f"{name} ") for word in told(folder)):
                make(home, folder, name)
        was = Requested(id="0" * 32, key="ab", at=DAY, protocol="responses", status=200, decision="nothing")
        home.store.write(home.name, partial(access.note, requested=was), name="record.note")
        tell(folder, "noted")
        home.store.write(home.name, partial(access.note, requested=replace(was, id=OLD)), name="record.note")
        home.store.write(home.name, partial(access.forget, ids=[OLD]), name="record.prune")
        tell(folder, "forgotten")
        for key in home.store.read(home.name, access.keys):
            if key.name == "laptop" and key.revoked_at is None:
                home.store.write(home.name, partial(access.revoke, named=key.id), name="keys.revoke")
        tell(folder, "revoked")
        with suppress(Mistake):  # no word of theirs is here, only keys
            home.erase(user="u9")
        tell(folder, "erased")
