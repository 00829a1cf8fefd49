"""What the tests share: one server for most of them, which must be idle and well after every test."""

import pytest
from _server import serving


@pytest.fixture(scope="session")
def common_server():
    with serving() as server:
        yield server


@pytest.fixture
def server(common_server, request):
    needed = request.node.get_closest_marker("needs_route")
    if needed and needed.args[0] not in common_server.get_json("/openapi.json")["paths"]:
        pytest.skip(f"this program does not serve {needed.args[0]}")
    yield common_server
    common_server.expect_idle()


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_route(path): left out by a program without this route")
