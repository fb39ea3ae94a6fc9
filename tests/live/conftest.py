"""A small real model, served by a process of its own for the whole run."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog import ChatConfig

SERVE = Path(__file__).parents[2] / "examples" / "small_model.py"


@pytest.fixture(scope="session")
def live_url() -> Iterator[str]:
    """The base URL of the model."""
    python = os.environ.get("EVERLOG_LIVE")
    if not python:
        pytest.fail("EVERLOG_LIVE names no Python that has the model; `make test-live` makes one")
    with subprocess.Popen(
        [python, str(SERVE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address, "the server ended before it was ready"
        yield f"{address}/v1"
        server.communicate(timeout=60)


@pytest.fixture
def config(live_url: str) -> ChatConfig:
    """The model in the place of every provider, so that each protocol can be spoken with it."""
    return ChatConfig(
        base_urls=dict.fromkeys(["ollama", "openai", "anthropic"], live_url),
        api_keys=dict.fromkeys(["openai", "anthropic"], "any"),
    )


@pytest.fixture
def unused_url() -> str:
    """The base URL of a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"
