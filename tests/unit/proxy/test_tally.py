"""What is no conversation counts under its key all the same, and is kept nowhere."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from everlog import access, log
from everlog.access import LOOPBACK, Principal
from everlog.conversation.alignment.values import Caller
from everlog.store import open_store
from everlog.surfaces.proxy.incoming import Incoming
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.recording.tally import taken
from everlog.surfaces.proxy.running import Keeping
from everlog.surfaces.proxy.settings.options import Options, Target

KEYED = Principal(tenant="t", key="k", role="chat")
TARGET = Target(base_url="http://upstream.test/v1")
EMBEDDED = {"object": "list", "data": [{"embedding": [0.1]}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}


def used(path: str, pieces: Sequence[bytes], *, method="POST", status=200, body=b"{}", who=KEYED) -> tuple[int, int]:
    """Return the requests and tokens that are counted after a request."""
    with open_store(":memory:") as store:
        recorder = Recorder(store, tenant="t", caller=Caller(), redact=lambda message: message)
        incoming = Incoming(method=method, path=path, query=b"", headers=(), body=body)

        async def play() -> None:
            ear = Keeping(recorder, Options(targets=(TARGET,))).listen(incoming, None, who, TARGET)
            if ear is not None:
                ear.head(status, ())
                assert [ear.piece(piece) for piece in pieces] == [len(piece) for piece in pieces]
                await ear.commit()

        asyncio.run(play())
        recorder.close()
        found = store.read("t", lambda unit: access.used(unit, "k", store.clock.now()))
        assert store.read("t", log.listed) == []
        return found.requests, found.tokens


def test_tokens_that_an_answer_tells_are_counted_wherever_it_is_cut():
    whole = json.dumps(EMBEDDED).encode()
    assert used("/v1/embeddings", [whole[:7], whole[7:]]) == (1, 8)
    stream = b'data: {"choices":[{"text":"a"}],"usage":null}\n\ndata: {"usage":{"input_tokens":3,"output_tokens":4}}\n\ndata: [DONE]\n\n'
    assert used("/v1/completions", [stream]) == (1, 7)


def test_where_it_tells_none_those_of_the_question_are_estimated():
    assert used("/v1/embeddings", [b'{"data":[]}'], body=b'{"input":"' + b"x" * 390 + b'"}') == (1, 100)
    assert used("/v1/audio/speech", [b"\xff\xfb sound"], body=b"") == (1, 0)


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/embeddings", {"status": 429}),
        ("/v1/models", {"method": "GET"}),
        ("/v1/messages/count_tokens", {}),
        ("/v1/embeddings", {"who": LOOPBACK}),
    ],
)
def test_what_is_refused_or_costs_nothing_or_has_no_key_is_not_counted(path, more):
    assert used(path, [json.dumps(EMBEDDED).encode()], **more) == (0, 0)


@pytest.mark.parametrize(
    "answer", [b"", b"{", b"[]", b'{"usage": 7}', b'{"usage": {"total_tokens": "9"}}', b"data: x\n\n"]
)
def test_an_odd_answer_tells_nothing(answer):
    assert taken(answer) is None
