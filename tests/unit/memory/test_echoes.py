"""Our own calls are known again, and the tools of others are not taken for ours."""

import pytest

from everlog.memory.tree.echoes import echoes, may_echo, recalled
from everlog.messages import Call


@pytest.mark.covers("fault 33")
@pytest.mark.parametrize(
    ("name", "arguments", "ours"),
    [
        ("zoom", '{"id": 4, "n": 2}', True),
        ("zoom", '{"id": 4}', True),
        ("read", '{"id": 4, "page": 1}', True),
        ("read", '{"path": "a.py"}', False),
        ("read", '{"id": 4, "path": "a.py"}', False),
        ("date", '{"id": 4}', True),
        ("date", "{}", False),
        ("search", '{"words": "ferry"}', True),
        ("search", '{"words": "ferry", "before": 9}', True),
        ("search", '{"query": "ferry"}', False),
        ("zoom", "not json", False),
        ("zoom", "[]", False),
        ("mcp__everlog__search", '{"q": 1}', True),
        ("everlog_zoom", "", True),
        ("everlog_deploy", '{"id": 4}', False),
        ("mcp__memory__zoom", '{"id": 4, "n": 2}', True),
        ("memory.search", '{"words": "ferry"}', True),
        ("memory.search", '{"words": ["ferry"]}', False),
        ("zoom", '{"id": "a", "n": 2}', False),
        ("zoom", '{"id": true}', False),
        ("zoom", '{"id": 4, "n": null}', True),
        ("zoom", '{"id": null}', False),
        ("zoom", "[" * 100_000, False),
        ("microzoom", '{"id": 4}', False),
        ("Zoom", '{"id": 4, "n": 2}', False),
    ],
)
def test_a_call_is_ours_by_its_name_and_what_it_takes(name: str, arguments: str, ours: bool):
    call = Call(call_id="c", name=name, arguments=arguments)
    assert echoes(call) is ours
    assert (recalled(call) is not None) is ours, "search and summaries tell them apart alike"
    assert may_echo(name) or not ours


def test_a_result_that_names_another_tool_is_not_ours():
    assert not may_echo("bash")
    assert may_echo(None)
