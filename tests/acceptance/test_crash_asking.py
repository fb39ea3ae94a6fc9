"""Requests that are kept before they are answered, killed at every commit.

A client that was not told of an answer asks again: what was kept of it meanwhile stays, and the new answer is another
branch, since nobody can tell the two wishes apart before it comes (decision 19).
"""

from pathlib import Path

from everlog import open as open_log
from everlog.testing.failpoints import Death, run
from tests.acceptance import crash_asking_script as script

ASKING = {"record.asked", "record.forget", "context.prepare"}
"""Units of work of requests that memory makes."""


def test_a_talk_whose_requests_are_kept_before_they_are_answered_goes_on_whole():
    def check(folder: Path, death: Death) -> None:
        whole = [message.text for message in script.spoken(script.ROUNDS)]
        with open_log(folder / "everlog.db") as home:
            before = script.kept(home)
            assert all(texts == whole[: len(texts)] for texts in before), death
            assert sum(map(len, before)) >= 2 * script.told(folder)
        script.live(folder)
        with open_log(folder / "everlog.db") as home:
            after = script.kept(home)
            assert whole in after, death
            assert script.known(home) == []
            assert all(texts == whole[: len(texts)] for texts in after), death

    report = run(script.live, check)
    assert {death.point.rpartition(".")[0] for death in report.deaths} >= ASKING
