"""What the tests share: one server for most of them, which must be idle and well after every test."""

import pytest
from _server import serving


@pytest.fixture(scope="session")
def common_server():
    with serving() as server:
        yield server


@pytest.fixture
def server(common_server):
    yield common_server
    common_server.expect_idle()
