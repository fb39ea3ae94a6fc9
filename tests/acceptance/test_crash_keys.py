"""Keys of callers, killed at every commit: a key that was shown is known, one that was revoked or erased opens nothing."""

from functools import partial
from pathlib import Path

from everlog import access
from everlog import open as open_log
from everlog.testing.failpoints import Death, run
from tests.acceptance import crash_keys_script as script

WITH_KEYS = {"keys.create", "keys.revoke", "erase.keys", "record.note", "record.prune"}
"""Every unit of work of keys that this script is killed in."""


def test_a_key_that_was_shown_is_known_and_one_that_was_ended_opens_nothing():
    def check(folder: Path, death: Death) -> None:
        look(folder)
        script.live(folder)
        look(folder)
        assert script.told(folder)[-1] == "erased"

    report = run(script.live, check)
    assert {death.point.rpartition(".")[0] for death in report.deaths} >= WITH_KEYS


def look(folder: Path) -> None:
    """Check that all which was acknowledged is so."""
    told = script.told(folder)
    with open_log(folder / "everlog.db") as home:
        for word in told:
            name, _, text = word.partition(" ")
            token = access.parse(text)
            if token is None:
                continue
            found = home.store.read(home.name, partial(access.recognise, token=token))
            if name == "laptop" and "revoked" in told:
                assert found == "revoked"
            if name == "phone" and "erased" in told:
                assert found == "unknown"
            if "revoked" not in told:
                assert found != "unknown"
        noted = home.store.read(home.name, partial(access.asked, id_="0" * 32))
        assert (noted is not None) or "noted" not in told
        if told and told[-1] in {"forgotten", "revoked", "erased"}:
            assert home.store.read(home.name, partial(access.asked, id_=script.OLD)) is None
