"""What a client writes anew into each request goes up to its own provider alone, and breaks no prefix there."""

import pytest

from everlog.errors import Mistake
from everlog.surfaces.proxy.recording.profiles import Profile, parse, profile_of, profiles
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.remembering.prefixes import laid
from everlog.surfaces.proxy.remembering.steadiness import as_read, put_back, steady

CLAUDE = profiles()["claude-code"]
HEAD = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;"
LINE = {"type": "text", "text": HEAD}
RULES = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
HI = {"role": "user", "content": HEAD}
BODY = {"system": [LINE, RULES], "messages": [HI]}


def test_the_line_goes_up_to_its_own_provider_as_it_came():
    assert steady(CLAUDE, "anthropic", BODY) is BODY


@pytest.mark.parametrize("provider", [None, "openai", "fireworks"])
def test_no_other_provider_gets_it(provider):
    assert steady(CLAUDE, provider, BODY) == {"system": [RULES], "messages": [HI]}
    assert steady(CLAUDE, provider, {"system": [LINE], "messages": [HI]}) == {"messages": [HI]}
    assert steady(CLAUDE, provider, {"system": f"{HEAD}\n\nBe brief.\n", "messages": []}) == {
        "system": "Be brief.\n",
        "messages": [],
    }


@pytest.mark.parametrize("name", ["messages", "input"])
def test_it_is_no_instruction_of_another_protocol_either(name):
    first = {"role": "system", "content": f"{HEAD}\nBe brief."}
    alone = {"role": "developer", "content": [LINE]}
    assert steady(CLAUDE, None, {name: [first, alone, HI]}) == {name: [{**first, "content": "Be brief."}, HI]}


def test_what_a_person_says_is_never_touched():
    body = {"system": [RULES], "messages": [HI, {"role": "system", "content": HEAD}]}
    assert steady(CLAUDE, None, body) is body


def test_a_client_that_writes_nothing_anew_is_left_alone():
    for name in sorted(profiles().keys() - {"claude-code"}):
        assert steady(profiles()[name], None, BODY) is BODY


def test_two_requests_that_differ_in_it_are_the_same_for_either_provider():
    other = {**BODY, "system": [{**LINE, "text": HEAD.replace("36ee5", "0aaa9")}, RULES]}
    for provider in ("anthropic", None):
        up = [as_read(CLAUDE, provider, steady(CLAUDE, provider, body)) for body in (BODY, other)]
        assert laid("anthropic", up[0]) == laid("anthropic", up[1])
    assert laid("anthropic", as_read(CLAUDE, None, BODY)) != laid("anthropic", as_read(CLAUDE, None, other))


def test_it_is_put_back_where_it_stood_for_its_own_provider():
    apart = steady(CLAUDE, None, BODY)
    assert put_back(CLAUDE, "anthropic", apart, BODY) == BODY
    assert put_back(CLAUDE, None, apart, BODY) is apart
    assert put_back(CLAUDE, "anthropic", {"system": "A"}, BODY)["system"] == [LINE, {"type": "text", "text": "A"}]


@pytest.mark.parametrize(
    "text",
    [
        '[[volatile]]\nwhy = "x"',
        '[[volatile]]\nwhy = "x"\nbegins = ""\nown = "a"',
        '[[volatile]]\nwhy="x"\nmoon="full"',
    ],
)
def test_a_profile_that_names_such_blocks_wrongly_is_refused(text):
    with pytest.raises(Mistake, match="has why, begins and own"):
        parse("x", f'title = "x"\n{text}')


def test_profiles_are_known_by_what_claude_code_sends():
    found: Profile = profile_of(Facts(((b"user-agent", b"claude-cli/2.1.197 (external, cli)"),), {}, ()))
    assert found.volatile == CLAUDE.volatile
