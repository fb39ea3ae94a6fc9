"""How the connection of a round ends is of no matter to its answer."""

import asyncio

import pytest

from everlog.errors import ConnectionFailed
from everlog.protocols import FORMATS
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.upstream import Coming
from everlog.surfaces.proxy.remembering.answering import Streamed
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.hidden_rounds import CASES, results_of
from tests.unit.proxy.test_hidden_rounds import begun, each_protocol, folded, shown


class Lingering:
    """An answer whose end does not come, or comes as an error."""

    status = 200
    headers: Headers = ((b"content-type", b"text/event-stream"),)

    def __init__(self, pieces: list[bytes], *, breaks: bool) -> None:
        self._pieces = pieces
        self._breaks = breaks
        self.is_closed = False

    async def read(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._breaks:
            raise ConnectionFailed("the body broke off")
        await asyncio.Event().wait()
        return b""

    def close(self) -> None:
        self.is_closed = True


@each_protocol
@pytest.mark.parametrize("breaks", [False, True], ids=["stays open", "breaks off"])
def test_an_answer_is_whole_when_its_last_event_is_there(protocol, breaks):
    case = CASES["text before"]
    rounds = begun(protocol, case, stream=True)
    bodies = [body_of(answer, protocol, "m", number) for number, answer in enumerate(case.rounds, 1)]
    comings = [Lingering([*events_of(body, protocol)], breaks=breaks) for body in bodies]
    way = Way(comings[1:])

    async def run(calls):
        return results_of([call.call_id for call in calls])

    async def told():
        streamed = Streamed(comings[0], FORMATS[protocol], rounds, run, way, lambda: None)
        out = []
        while data := await streamed.read():
            out.append(data)
        return b"".join(out)

    body = folded(protocol, asyncio.run(told())).body()
    assert shown(protocol, body) == (case.text, case.thinking, case.calls, case.finish)
    assert comings[0].is_closed


class Way:
    """Gives these answers, one after the other."""

    def __init__(self, comings: list[Lingering]) -> None:
        self._comings = comings

    async def send(self, body: bytes | None = None) -> Coming:
        assert body is not None
        return self._comings.pop(0)
