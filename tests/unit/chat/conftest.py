"""Both drivers."""

import pytest

from tests.unit.chat.calls import Calling


@pytest.fixture(params=["sync", "async"])
def calling(request):
    return Calling(is_async=request.param == "async")
