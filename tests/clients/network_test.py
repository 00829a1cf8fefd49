"""How the server is reached and who may ask: keys, TLS, the socket file, web pages, public addresses.

With curl, httpx and Python's ssl: independent readers of what the server says.
"""

import contextlib
import json
import os
import ssl
import stat
import statistics
import subprocess
import time

import httpx
import pytest
from _ask import ADDITION, long_reply
from _server import NANO, PERIGEE, serving

KEY = "right-key"


def curl(*arguments):
    """Status and body."""
    command = ["curl", "-sS", "--max-time", "30", "-w", "\n%{http_code}", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    body, status = result.stdout.rsplit("\n", 1)
    return int(status), body


@pytest.fixture(scope="module")
def keyed():
    with serving("--api-key", KEY) as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificate):
    with serving(
        "--tls-cert", certificate / "cert.pem", "--tls-key", certificate / "key.pem", "--api-key", KEY
    ) as server:
        yield server


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [f"Authorization: Bearer {KEY}", f"authorization: bearer {KEY}", f"x-api-key: {KEY}"]
)
def test_a_key_opens_the_door(keyed, header):
    assert curl("-H", header, keyed.v1 + "/models")[0] == 200


REFUSED = [
    "X: y",
    "Authorization: Bearer wrong-key",
    f"Authorization: Bearer {KEY}x",
    f"Authorization: Bearer {KEY[:-1]}",
    f"Authorization: Basic {KEY}",
    "Authorization: Bearer ",
    "x-api-key: wrong-key",
]
ROUTES = ["/v1/models", "/v1/state", "/metrics", "/openapi.json"]


@pytest.mark.parametrize("header", REFUSED)
def test_a_wrong_key_opens_nothing(keyed, header):
    for route in ROUTES:
        status, body = curl("-H", header, keyed.url + route)
        assert (status, json.loads(body)["error"]["type"]) == (401, "incorrect_api_key_error")
    status, _ = curl("-H", header, "-d", json.dumps({"messages": ADDITION}), keyed.v1 + "/chat/completions")
    assert status == 401
    assert keyed.get_json("/health") == {"status": "ok"}


def test_a_refusal_says_the_same_whatever_was_wrong(keyed):
    """Neither bytes nor length of the answer depend on how near a wrong key came; nor does its time, grossly."""
    near, far = KEY[:-1] + "x", "z" * 200
    with httpx.Client(base_url=keyed.url) as client:

        def ask(key):
            begin = time.perf_counter()
            answer = client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
            return time.perf_counter() - begin, (answer.status_code, answer.content)

        answers = [(ask(near), ask(far)) for _ in range(40)]
    assert len({content for pair in answers for _, content in pair}) == 1
    times = [statistics.median(pair[i][0] for pair in answers) for i in range(2)]
    assert max(times) < 10 * min(times)


def test_keys_are_neither_logged_nor_told(keyed):
    curl("-H", f"Authorization: Bearer {KEY}", keyed.url + "/metrics")
    _, metrics = curl("-H", f"x-api-key: {KEY}", keyed.url + "/metrics")
    assert KEY not in "".join(keyed.log) + metrics


def test_keys_come_from_a_file(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# for tests\n\nfirst\n  second  \n")
    with serving("--api-key-file", file) as server:
        for key, wanted in (("first", 200), ("second", 200), ("# for tests", 401), ("third", 401)):
            assert curl("-H", f"x-api-key: {key}", server.v1 + "/models")[0] == wanted


# --- TLS ------------------------------------------------------------------------------------------------------------


def test_curl_trusts_the_certificate(encrypted, certificate):
    assert encrypted.url.startswith("https://")
    status, body = curl("--cacert", certificate / "cert.pem", "-H", f"x-api-key: {KEY}", encrypted.v1 + "/models")
    assert status == 200 and json.loads(body)["data"][0]["id"] == "nano"


def test_a_client_that_does_not_know_the_certificate_leaves(encrypted):
    result = subprocess.run(["curl", "-sS", encrypted.url + "/health"], capture_output=True, check=False)
    assert result.returncode == 60  # the peer's certificate cannot be verified


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_streams_over_tls(encrypted, certificate, version):
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    context.minimum_version = context.maximum_version = version
    request = {"messages": ADDITION, "max_tokens": 12, "stream": True}
    with (
        httpx.Client(verify=context, headers={"x-api-key": KEY}) as client,
        client.stream("POST", encrypted.v1 + "/chat/completions", json=request) as answer,
    ):
        lines = [line for line in answer.iter_lines() if line]
    assert answer.status_code == 200 and lines[-1] == "data: [DONE]" and len(lines) > 5


def test_old_versions_of_tls_are_refused(encrypted):
    host = f"127.0.0.1:{encrypted.port}"
    command = ["openssl", "s_client", "-connect", host, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"]
    result = subprocess.run(command, input=b"", capture_output=True, timeout=30, check=False)
    assert result.returncode != 0


def test_plain_http_on_the_tls_port_does_no_harm(encrypted, certificate):
    with encrypted.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not connection.recv(100).startswith(b"HTTP/1.1 200")
    assert curl("--cacert", certificate / "cert.pem", encrypted.url + "/health")[0] == 200


def test_a_silent_client_of_tls_keeps_nobody_waiting(encrypted, certificate):
    silent = [encrypted.connect() for _ in range(20)]
    begin = time.monotonic()
    assert curl("--cacert", certificate / "cert.pem", encrypted.url + "/health")[0] == 200
    assert time.monotonic() - begin < 5
    for connection in silent:
        connection.close()


def test_a_client_that_takes_its_leave_over_tls_is_noticed(certificate):
    """Its goodbye is bytes on the connection, which must not be taken for a next request."""
    with serving("--tls-cert", certificate / "cert.pem", "--tls-key", certificate / "key.pem") as server:
        context = ssl.create_default_context(cafile=certificate / "cert.pem")

        def state():
            with httpx.Client(verify=context) as client:
                return client.get(server.v1 + "/state").json()

        body = json.dumps(long_reply()).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with context.wrap_socket(server.connect(), server_hostname="localhost") as connection:
            connection.sendall(head.encode() + body)
            while state()["tokens"]["generated"] < 5:
                time.sleep(0.05)
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.unwrap()
        generated = state()["tokens"]["generated"]
        while state()["jobs"]["running"]:
            assert state()["tokens"]["generated"] < generated + 200
            time.sleep(0.05)


# --- the socket file ------------------------------------------------------------------------------------------------


def test_answers_on_a_socket_file(tmp_path):
    file = tmp_path / "perigee.sock"
    with serving("--unix", file):
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        status, body = curl("--unix-socket", file, "http://localhost/v1/models")
        assert status == 200 and json.loads(body)["data"][0]["id"] == "nano"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(file)), timeout=60) as client:
            answer = client.post("http://localhost/v1/chat/completions", json={"messages": ADDITION, "max_tokens": 3})
        assert answer.json()["usage"]["completion_tokens"] == 3
    assert not file.exists()


# --- web pages ------------------------------------------------------------------------------------------------------

PAGE = "https://chat.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


def preflight(server, origin):
    return httpx.options(server.v1 + "/chat/completions", headers={"Origin": origin, **PREFLIGHT})


def test_pages_of_an_allowed_origin_may_ask():
    with serving("--api-key", KEY, "--cors-origin", PAGE) as server:
        asked = preflight(server, PAGE)
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "authorization" in asked.headers["access-control-allow-headers"]
        headers = {"Origin": PAGE, "Authorization": f"Bearer {KEY}"}
        answer = httpx.get(server.v1 + "/models", headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        # A page must be able to read why it was refused.
        refused = httpx.get(server.v1 + "/models", headers={"Origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)


def test_other_pages_may_not(server):
    for origin in (PAGE, "null", "https://127.0.0.1.evil.example", "http://localhost:1"):
        assert preflight(server, origin).status_code == 403
        answer = httpx.post(
            server.v1 + "/chat/completions", headers={"Origin": origin}, json={"messages": ADDITION, "max_tokens": 1}
        )
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers


def test_a_name_that_was_made_to_point_here_is_refused(server):
    """DNS rebinding: the page's own name leads to this machine, so its requests are of the same origin."""
    headers = {"Host": f"evil.example:{server.port}", "Origin": f"http://evil.example:{server.port}"}
    assert httpx.get(server.v1 + "/models", headers=headers).status_code == 403
    assert httpx.get(server.v1 + "/models", headers={"Host": f"LOCALHOST:{server.port}"}).status_code == 200


# --- public addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_needs_a_key(host):
    command = [PERIGEE, "serve", "-m", NANO, "--host", host, "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and "--api-key-file" in result.stderr


def test_a_public_address_with_a_key_answers_by_any_name():
    with serving("--host", "0.0.0.0", "--api-key", KEY) as server:
        url = f"http://127.0.0.1:{server.port}/v1/models"
        assert httpx.get(url, headers={"x-api-key": KEY, "Host": "models.example"}).status_code == 200
        assert httpx.get(url, headers={"Host": "models.example"}).status_code == 401
