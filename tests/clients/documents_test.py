"""The examples of README.md and docs/serving.md do what they say, line by line as they are written.

Only the port is another if 8080 is taken.
"""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from _server import serving

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "docs/serving.md"]
PORT = 8080


def blocks(document, language):
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


CURL_LINES = [
    line for document in DOCUMENTS for block in blocks(document, "sh") for line in block.splitlines() if "curl " in line
]
PROGRAMS = [(document, block) for document in DOCUMENTS for block in blocks(document, "python")]


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture(scope="module")
def documented():
    """As the examples say that it was started."""
    with serving("--name", "nano", port=PORT if is_free(PORT) else 0) as server:
        yield server


def with_port(text, server):
    assert f"127.0.0.1:{PORT}" in text
    return text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{server.port}")


def test_there_are_examples():
    assert len(CURL_LINES) >= 5
    assert {document for document, _ in PROGRAMS} == set(DOCUMENTS)


@pytest.mark.parametrize("line", CURL_LINES)
def test_a_curl_line_is_answered(documented, line):
    command = with_port(line, documented).replace("curl ", "curl -sS --fail-with-body ", 1)
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    if '"stream":true' in line:
        assert result.stdout.startswith(("data: ", "event: ")) and '"error":{' not in result.stdout
    elif "/metrics" in line:
        assert "vllm:num_requests_running" in result.stdout
    else:
        assert json.loads(result.stdout)


@pytest.mark.parametrize(("document", "program"), PROGRAMS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(PROGRAMS)])
def test_a_program_runs(documented, document, program):
    program = with_port(program, documented)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, f"{document}: {result.stderr}"
    assert result.stdout.strip()
