"""Ends for waits that nothing else would end."""

import os
import threading

import pytest

from everlog.chat.deadlines import Deadlines


def test_what_is_not_over_in_time_is_ended_and_the_rest_is_not():
    deadlines, late, early, never = Deadlines(), threading.Event(), threading.Event(), threading.Event()
    deadlines.set(never.set, 60)
    deadlines.set(late.set, 0.05)
    deadlines.set(early.set, 0.01)
    deadlines.set(never.set, 0.2)
    deadlines.clear(never.set)
    assert early.wait(10)
    assert late.wait(10)
    assert not never.wait(0.3)


def test_one_thread_looks_after_all_of_them():
    deadlines, before = Deadlines(), threading.active_count()
    ends = [threading.Event() for _ in range(50)]
    for end in ends:
        deadlines.set(end.set, 0.01)
    assert threading.active_count() <= before + 1
    assert all(end.wait(10) for end in ends)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_has_a_thread_of_its_own():
    deadlines, ended = Deadlines(), threading.Event()
    deadlines.set(ended.set, 60)
    child = os.fork()
    if child == 0:
        deadlines.clear(ended.set)
        deadlines.set(ended.set, 0.01)
        os._exit(0 if ended.wait(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    deadlines.clear(ended.set)
