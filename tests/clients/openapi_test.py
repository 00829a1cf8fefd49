"""Schemathesis reads /openapi.json and asks what the document allows, and what it does not.

Whatever comes back must be an answer that the document knows, by status, type and shape, and never the server's fault.
"""

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import pytest
from _server import serving

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 8  # of each route
MOST_TOKENS = 3


@pytest.fixture(scope="module")
def described():
    with serving("--max-tokens", MOST_TOKENS) as server:
        yield server
        server.expect_idle()


@pytest.fixture(scope="module")
def document(described):
    return schemathesis.openapi.from_url(described.url + "/openapi.json")


schema = schemathesis.pytest.from_fixture("document")


def shorten(body):
    """The same request for a few tokens: what nano says is not looked at here."""
    if isinstance(body, dict):
        for key in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            if isinstance(body.get(key), int) and body[key] > MOST_TOKENS:
                body[key] = MOST_TOKENS


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_route_answers_as_documented(case):
    shorten(case.body)
    case.call_and_validate(checks=CHECKS, timeout=60)
