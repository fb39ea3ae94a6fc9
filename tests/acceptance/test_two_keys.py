"""Keys on one proxy, whatever they do and in whatever order: none meets a row, or the existence, of another's (law 8).

Five callers say the same words in sessions of the same names: two keys of one tenant, two end users behind one key, and
a key of another tenant. Who may read sees all of its own tenant, and of the other nothing.
"""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import everlog
from everlog import access
from everlog.surfaces.api.document import PREFIX
from everlog.surfaces.proxy.pages import ROLES
from everlog.testing.upstream import Answer, Received
from tests.acceptance.keeping import Keeper, Said
from tests.acceptance.proxies import Stage

CALLERS = {
    "ann": ("default", "ann's key", None),
    "bob": ("default", "bob's key", None),
    "dad": ("default", "a family's key", "dad@home"),
    "mum": ("default", "a family's key", "mum@home"),
    "eve": ("acme", "eve's key", None),
}
"""By name: tenant, key, and the end user that their requests name."""

WHO = tuple(CALLERS)
TENANTS = ("default", "acme")
PAIRS = [("ann", "bob"), ("bob", "ann"), ("dad", "mum"), ("mum", "dad"), ("ann", "eve"), ("eve", "bob"), ("eve", "mum")]
"""Who pries into whose."""

SESSIONS, PROJECTS = ("s1", "s2"), ("boat", "house")

PROTOCOLS = {
    "/v1/chat/completions": "messages",
    "/v1/messages": "messages",
    "/v1/responses": "input",
}

QUERIES = {
    ("GET", "/threads/{key}/zoom"): "?id=0",
    ("GET", "/threads/{key}/search"): "?q=word",
    ("GET", "/threads/{key}/entries"): "?last=5",
    ("GET", "/threads/{key}/view"): "?bytes=256",
}

ABOUT_ONE = {
    ("GET", "/threads/{key}"),
    ("DELETE", "/threads/{key}"),
    ("GET", "/threads/{key}/entries"),
    ("GET", "/threads/{key}/instructions"),
    ("GET", "/threads/{key}/view"),
    ("GET", "/threads/{key}/doctor"),
    ("GET", "/threads/{key}/zoom"),
    ("GET", "/threads/{key}/search"),
    ("GET", "/threads/{key}/export"),
    ("GET", "/requests/{id}"),
}
"""What names a thread or a request; `pry` asks each of them for what is another's."""

ABOUT_OWN = {("GET", "/threads"), ("GET", "/requests")}
"""What shows to somebody what is theirs; `look` asks them."""

ABOUT_TENANT = {("GET", "/events"), ("GET", "/stats"), ("GET", "/receipts"), ("POST", "/erase")}
"""What is about all of a tenant; `read` and `erase_user` ask them."""

ERASES = ("DELETE", "/threads/{key}")


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    stage = Stage()
    with stage.upstream:
        stage.play(echo)
        keeper = Keeper(
            everlog.open(tmp_path_factory.mktemp("two") / "everlog.db"), stage.upstream, local=None, hold_s=20
        )
        yield keeper
        keeper.close()


def echo(received: Received) -> Answer:
    """Answer with the number of bytes, the same to everybody who says the same."""
    return Answer(text=f"Answer {len(received.raw)}.")


class Keys(RuleBasedStateMachine):
    keeper: Keeper
    numbers = count()

    @initialize()
    def begin(self) -> None:
        """Make tenants and keys anew."""
        number = next(self.numbers)
        self.tenants = {tenant: f"{tenant}-{number}" for tenant in TENANTS}
        made = {
            (tenant, name): self.keeper.key(self.tenants[tenant], name=name) for tenant, name, _ in CALLERS.values()
        }
        self.tokens = {who: made[tenant, name] for who, (tenant, name, _) in CALLERS.items()}
        self.ranks = {
            (tenant, role): self.keeper.key(self.tenants[tenant], name=role, role=role)
            for tenant in TENANTS
            for role in ("read", "admin")
        }
        self.said: dict[str, dict[str, list[Any]]] = {who: {path: [] for path in PROTOCOLS} for who in WHO}
        self.responses: dict[str, list[str]] = {who: [] for who in WHO}
        self.threads: dict[str, set[str]] = {who: set() for who in WHO}
        self.requests: dict[str, set[str]] = {who: set() for who in WHO}
        for who in WHO:
            self.chat(who, "/v1/chat/completions", "s1", "boat", anew=True, n=0)
            [key] = self.threads[who]
            assert re.fullmatch(r"[a-z]+:s1@[0-9a-f]{12}", key), "no number tells that there are others"

    def ask(self, who: str, path: str, body: Any = None, method: str = "", **headers: str) -> Said:
        user = CALLERS[who][2]
        named = {} if user is None else {"x_everlog_user_id": user}
        return self.keeper.ask(path, self.tokens[who], body, method, **headers, **named)

    def of(self, tenant: str, role: str, path: str, body: Any = None, method: str = "") -> Said:
        return self.keeper.ask(path, self.ranks[tenant, role], body, method)

    @rule(
        who=st.sampled_from(WHO),
        path=st.sampled_from(sorted(PROTOCOLS)),
        session=st.sampled_from(SESSIONS),
        project=st.sampled_from(PROJECTS),
        anew=st.booleans(),
        n=st.integers(0, 2),
    )
    def chat(self, who: str, path: str, session: str, project: str, anew: bool, n: int) -> None:
        """All say the same words in sessions of the same names; what tells them apart is their key."""
        said = self.said[who][path]
        if anew:
            said.clear()
        said.append({"role": "user", "content": f"word {n}"})
        body = {"model": "m", "max_tokens": 100, PROTOCOLS[path]: said}
        answer = self.ask(who, path, body, x_session_id=session, x_everlog_project_id=project)
        assert answer.status == 200
        said.append({"role": "assistant", "content": re.findall(r"Answer \d+\.", answer.body.decode())[0]})
        if path == "/v1/responses":
            self.responses[who].append(answer.json["id"])
        before = len(self.requests[who])
        self.look(who)
        assert len(self.requests[who]) == before + 1
        assert self.threads[who]

    @rule(who=st.sampled_from(WHO), whose=st.sampled_from(WHO))
    def answer_to(self, who: str, whose: str) -> None:
        """Whoever goes on from a response of somebody else's finds nothing there, as if it had never been."""
        id_ = self.responses[whose][-1] if self.responses[whose] else "resp_0"
        body = {"model": "m", "input": "word 0", "previous_response_id": id_}
        answer = self.ask(who, "/v1/responses", body, x_everlog_debug="on")
        assert answer.status == 200
        self.responses[who].append(answer.json["id"])
        if who != whose and id_ not in self.responses[who][:-1]:
            decision = answer.headers.get("x-everlog-decision")
            strange = self.ask(who, "/v1/responses", body | {"previous_response_id": "resp_f"}, x_everlog_debug="on")
            self.responses[who].append(strange.json["id"])
            assert decision == strange.headers.get("x-everlog-decision") == "new"
        self.look(who)

    @rule(who=st.sampled_from(WHO), whose=st.sampled_from(WHO), method=st.sampled_from(["GET", "DELETE"]))
    def fetch(self, who: str, whose: str, method: str) -> None:
        """What an upstream holds is between it and its client; the proxy shows nothing of its own there."""
        id_ = self.responses[whose][-1] if self.responses[whose] else "resp_0"
        found = self.ask(who, f"/v1/responses/{id_}", method=method)
        strange = self.ask(who, "/v1/responses/resp_f", method=method)
        assert (found.status, found.body.replace(id_.encode(), b"resp_f")) == (strange.status, strange.body)
        assert "x-everlog-request-id" not in found.headers

    @rule(who=st.sampled_from(WHO))
    def look(self, who: str) -> None:
        """What somebody is shown is theirs, and nobody else was ever shown it."""
        threads = {one["key"] for one in self.ask(who, f"{PREFIX}/threads?limit=1000").json["threads"]}
        asked = self.ask(who, f"{PREFIX}/requests?limit=1000").json["requests"]
        self.threads[who] |= threads
        self.requests[who] |= {one["id"] for one in asked}
        for one in asked:
            assert one["thread"] is None or one["thread"] in threads
            assert one["user_id"] == CALLERS[who][2]
        for other in set(WHO) - {who}:
            assert not self.requests[who] & self.requests[other]
            if CALLERS[other][0] == CALLERS[who][0]:  # keys of threads are names within a tenant
                assert not self.threads[who] & self.threads[other]
        for key in sorted(threads)[:3]:
            assert self.ask(who, f"{PREFIX}/threads/{key}").status == 200

    @rule(pair=st.sampled_from(PAIRS))
    def pry(self, pair: tuple[str, str]) -> None:
        """Of what is another's, each route says what it says of what is not there."""
        who, other = pair
        tenant = CALLERS[who][0]
        for one in sorted(ABOUT_ONE):
            field, shown = ("id", self.requests) if "{id}" in one[1] else ("key", self.threads)
            for name in sorted(shown[other] - shown[who])[:2]:
                self.same(lambda asked, one=one: self.ask(who, asked, method=one[0]), one, field, name)
                is_there = any(name in shown[each] for each in WHO if CALLERS[each][0] == tenant)
                for role in () if is_there else ("read", "admin"):
                    self.same(lambda asked, r=role, one=one: self.of(tenant, r, asked, method=one[0]), one, field, name)

    def same(self, ask: Any, one: tuple[str, str], field: str, name: str) -> None:
        found = []
        for named in (name, "f" * len(name)):
            said = ask(PREFIX + one[1].format(**{field: named}) + QUERIES.get(one, ""))
            headers = {head: value for head, value in said.headers.items() if head not in {"date", "content-length"}}
            found.append((said.status, said.body.replace(named.encode(), b""), headers))
        assert found[0] == found[1]
        assert found[0][0] in {403, 404}

    @rule(tenant=st.sampled_from(TENANTS))
    def read(self, tenant: str) -> None:
        """Who may read is shown what is of the tenant, all of it, and nothing of another one."""
        here = [who for who in WHO if CALLERS[who][0] == tenant]
        there = [who for who in WHO if CALLERS[who][0] != tenant]
        told = {
            path: self.of(tenant, "read", path).json
            for path in (
                f"{PREFIX}/requests?limit=1000",
                f"{PREFIX}/events?limit=1000",
                f"{PREFIX}/stats",
                f"{PREFIX}/receipts",
                "/events?limit=1000",
            )
        }
        shown = {one["id"] for one in told[f"{PREFIX}/requests?limit=1000"]["requests"]}
        for who in there:
            assert not self.requests[who] & shown
            assert not [id_ for id_ in self.requests[who] if id_ in json.dumps(told)]
        for who in here:
            assert self.requests[who] <= shown | self.gone()
        keys = {one["key"] for one in self.of(tenant, "read", f"{PREFIX}/threads?limit=1000").json["threads"]}
        assert told[f"{PREFIX}/stats"]["threads"] == len(keys)

    def gone(self) -> set[str]:
        """Return the requests that were erased with their thread or their user."""
        return {id_ for who in WHO for id_ in self.requests[who]} - {
            id_
            for who in WHO
            for id_ in (one["id"] for one in self.ask(who, f"{PREFIX}/requests?limit=1000").json["requests"])
        }

    @rule(who=st.sampled_from(WHO))
    def erase(self, who: str) -> None:
        """An admin of another tenant erases nothing; the own one does, and nobody else loses anything."""
        mine = sorted(one["key"] for one in self.ask(who, f"{PREFIX}/threads?limit=1000").json["threads"])
        tenant = CALLERS[who][0]
        if not mine:
            return
        path = f"{PREFIX}/threads/{mine[0]}"
        before = self.all_threads()
        strange = next(one for one in TENANTS if one != tenant)
        if mine[0] not in before[strange]:
            assert self.of(strange, "admin", path, method="DELETE").status == 404
        assert self.ask(who, path, method="DELETE").status == 403
        assert self.of(tenant, "read", path, method="DELETE").status == 403
        assert self.all_threads() == before
        assert self.of(tenant, "admin", path, method="DELETE").status == 200
        after = self.all_threads()
        assert before[tenant] - after[tenant] == {mine[0]}
        assert after[strange] == before[strange]

    def all_threads(self) -> dict[str, set[str]]:
        return {
            tenant: {one["key"] for one in self.of(tenant, "admin", f"{PREFIX}/threads?limit=1000").json["threads"]}
            for tenant in TENANTS
        }

    @rule(tenant=st.sampled_from(TENANTS), user=st.sampled_from(["dad@home", "mum@home", "nobody"]))
    def erase_user(self, tenant: str, user: str) -> None:
        """What a user said goes in the tenant whose admin asks, and nowhere else."""
        before = {who: self.own(who) for who in WHO}
        assert self.of(tenant, "read", f"{PREFIX}/erase", {"user": user}).status == 403
        assert {who: self.own(who) for who in WHO} == before
        is_here = any(self.requests[who] for who in WHO if (CALLERS[who][0], CALLERS[who][2]) == (tenant, user))
        erased = self.of(tenant, "admin", f"{PREFIX}/erase", {"user": user})
        assert erased.status == 200 or not is_here, erased
        for who in WHO:
            is_gone = CALLERS[who][0] == tenant and CALLERS[who][2] == user
            assert self.own(who) == (0 if is_gone else before[who])
            if is_gone:
                self.said[who] = {path: [] for path in PROTOCOLS}

    def own(self, who: str) -> int:
        """Return how many messages with words somebody is shown; what was erased has none."""
        keys = [one["key"] for one in self.ask(who, f"{PREFIX}/threads?limit=1000").json["threads"]]
        told = [self.ask(who, f"{PREFIX}/threads/{key}/entries").json["entries"] for key in keys]
        return sum(1 for entries in told for one in entries if one.get("text"))

    @rule(
        who=st.sampled_from(WHO), path=st.sampled_from(["/events", "/metrics", *(p for _, p in sorted(ABOUT_TENANT))])
    )
    def pages(self, who: str, path: str) -> None:
        """What is about everybody is not for keys that may only chat."""
        path = path if path in {"/events", "/metrics"} else f"{PREFIX}{path}"
        method, body = ("POST", {"user": "mum@home"}) if path.endswith("/erase") else ("GET", None)
        assert self.ask(who, path, body, method).status == 403
        assert self.keeper.ask(path, None, body, method).status == 401

    @rule(who=st.sampled_from(WHO))
    def say_who(self, who: str) -> None:
        """The pages that anybody sees say nothing of others."""
        tenant, _, user = CALLERS[who]
        context = self.ask(who, "/request-context", x_session_id="s1").json
        assert (context["tenant"], context["user_id"], context["session_id"]) == (self.tenants[tenant], user, "s1")
        told = json.dumps(context) + self.ask(who, "/health").body.decode()
        for other in set(WHO) - {who}:
            assert not [one for one in self.threads[other] | self.requests[other] if one in told]
            assert (CALLERS[other][2] or "nobody@home") not in told
            token = access.parse(self.tokens[other])
            assert token is not None
            assert self.tokens[other] == self.tokens[who] or token.id not in told


@pytest.mark.covers("law 8")
def test_keys_never_meet(keeper: Keeper):
    machine = type("Machine", (Keys,), {"keeper": keeper})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_route_and_page_is_in_that_machine(keeper: Keeper):
    """A route that is new must be put to the question too."""
    document = keeper.ask(f"{PREFIX}/openapi.json", keeper.key()).json
    routes = {
        (method.upper(), path.removeprefix(PREFIX)) for path, found in document["paths"].items() for method in found
    }
    assert routes == ABOUT_ONE | ABOUT_OWN | ABOUT_TENANT
    assert ROLES.keys() == {"/livez", "/readyz", "/health", "/request-context", "/metrics"}
