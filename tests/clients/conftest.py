"""The tools are where EVERLOG_CLIENTS says; `make test-clients` puts them there."""

import pytest

from tests.acceptance.conftest import everlog, quick
from tests.clients.agents import INSTALLED

__all__ = ["everlog", "quick"]


@pytest.fixture(autouse=True)
def installed() -> None:
    if not (INSTALLED / "node_modules").exists():
        pytest.fail("EVERLOG_CLIENTS names no folder that has the tools; `make test-clients` makes one")
