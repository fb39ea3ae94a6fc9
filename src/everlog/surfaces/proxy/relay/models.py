"""The models of all upstreams in one list."""

import asyncio
from dataclasses import replace

from everlog.errors import ProviderTrouble
from everlog.surfaces.proxy.asgi import Leaving, Left, answer
from everlog.surfaces.proxy.faults import JSON_TYPE, of_upstream, unlisted
from everlog.surfaces.proxy.incoming import Incoming
from everlog.surfaces.proxy.relay.relaying import Caller, Relay
from everlog.surfaces.proxy.relay.upstreams import Upstreams, merged
from everlog.surfaces.proxy.settings.options import Target

LARGEST = 16_000_000
"""The largest list of models that is read, in bytes."""


async def list_models(incoming: Incoming, upstreams: Upstreams, relay: Relay, caller: Caller) -> None:
    """Answer with the models of all upstreams that answer; `x-everlog-missing` names those that do not.

    Where there is one upstream, or none answers, the answer is that of the default one.
    """
    if len(upstreams.targets) == 1:
        await relay.relay(incoming, upstreams.default, None, caller)
        return
    try:
        async with Leaving(caller.receive):
            bodies = await asyncio.gather(*(_listed(incoming, target, relay, caller) for target in upstreams.targets))
    except Left:
        return
    found = [(target, body) for target, body in zip(upstreams.targets, bodies, strict=True) if isinstance(body, bytes)]
    if not found:
        error = next(body for body in bodies if not isinstance(body, bytes))
        name = upstreams.targets[0].name
        status, headers, said = (
            unlisted(error, name, is_anthropic=caller.is_anthropic)
            if isinstance(error, int)
            else of_upstream(error, name, is_anthropic=caller.is_anthropic)
        )
        await answer(caller.send, status, (*headers, *caller.headers), said)
        return
    missing = [
        target.name for target, body in zip(upstreams.targets, bodies, strict=True) if not isinstance(body, bytes)
    ]
    more = ((b"x-everlog-missing", ", ".join(missing).encode()),) if missing else ()
    await answer(caller.send, 200, (JSON_TYPE, *caller.headers, *more), merged(found, upstreams))


async def _listed(incoming: Incoming, target: Target, relay: Relay, caller: Caller) -> bytes | ProviderTrouble | int:
    """Return the list of one upstream as it sends it, or why there is none: its trouble, or the status of its refusal."""
    headers = tuple((name, value) for name, value in incoming.headers if name != b"accept-encoding")
    plain = replace(incoming, headers=(*headers, (b"accept-encoding", b"identity")))
    try:
        coming = await relay.upward(plain, target, None, caller).send()
        try:
            if coming.status != 200:
                return coming.status
            body = b""
            while len(body) <= LARGEST and (data := await coming.read()):
                body += data
            return body
        finally:
            coming.close()
    except ProviderTrouble as error:
        return error
