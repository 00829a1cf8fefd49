"""Clients that leave, lag, flood or talk nonsense, against the real program over real sockets.

After each test the server must be well and idle: no sequence left, no memory set aside (conftest.py).
"""

import json
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from _ask import ADDITION, SUM, long_reply, user
from _server import serving

LONG_PROMPT = {"messages": user("I have a red apple and a green pear. " * 320), "max_tokens": 2, "temperature": 0}


def request_bytes(body, path="/v1/chat/completions", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def leave(connection, how):
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half-close":
        connection.shutdown(socket.SHUT_WR)
    else:
        connection.close()


def answer_to(server, data, half_close=False, timeout=20.0):
    """The status of what comes back, and the head of it; None if the server closes without a word."""
    with server.connect(timeout) as connection:
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server need not hear a refused request to its end, but its answer must arrive
        try:
            received = connection.recv(1 << 16)
        except ConnectionResetError:
            received = b""
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.1 ") else None, received


def read_until(connection, wanted):
    received = b""
    while wanted not in received:
        piece = connection.recv(1 << 16)
        assert piece, received
        received += piece
    return received


# --- clients that leave ---------------------------------------------------------------------------------------------

WAYS = ["close", "reset", "half-close"]


def ended_jobs(state):
    return state["jobs"]["finished"] + state["jobs"]["cancelled"] + state["jobs"]["failed"]


def aborted(server):
    """How many replies were given up, as monitors see it."""
    metrics = httpx.get(server.url + "/metrics").text
    found = re.search(r'request_success_total\{[^}]*finished_reason="abort"[^}]*\} (\d+)', metrics)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_leaves_inside_the_request(server, how, share):
    data = request_bytes({"messages": user("x" * 3000), "max_tokens": 4})
    before = ended_jobs(server.state())
    connection = server.connect()
    connection.sendall(data[: int(share * len(data))])
    time.sleep(0.02)
    leave(connection, how)
    server.expect_idle()
    assert ended_jobs(server.state()) == before
    connection.close()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("stream", [False, True])
def test_leaves_while_the_prompt_is_read(server, how, stream):
    before, left = server.state(), aborted(server)
    fresh = [*user(f"{how} {stream}"), *LONG_PROMPT["messages"]]  # no snapshot of it is there
    connection = server.connect()
    connection.sendall(request_bytes({**LONG_PROMPT, "messages": fresh, "stream": stream}))
    server.wait_until(lambda state: state["jobs"]["running"] == 1, "running")
    leave(connection, how)
    server.wait_until(lambda state: ended_jobs(state) == ended_jobs(before) + 1, "ended")
    assert server.state()["tokens"]["generated"] == before["tokens"]["generated"]
    assert aborted(server) == left + 1
    connection.close()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("stream", [False, True])
def test_leaves_while_tokens_are_made(server, how, stream):
    before, left = server.state(), aborted(server)
    connection = server.connect()
    connection.sendall(request_bytes({**long_reply(), "stream": stream}))
    server.wait_until(lambda state: state["tokens"]["generated"] >= before["tokens"]["generated"] + 10, "generating")
    leave(connection, how)
    server.wait_until(lambda state: ended_jobs(state) == ended_jobs(before) + 1, "ended")
    assert aborted(server) == left + 1
    connection.close()


@pytest.mark.parametrize("how", WAYS)
def test_leaves_behind_the_answer(server, how):
    with server.connect() as connection:
        connection.sendall(request_bytes({"messages": ADDITION, "max_tokens": 2, "stream": True}))
        read_until(connection, b"data: [DONE]")
        leave(connection, how)


@pytest.mark.parametrize("how", WAYS)
def test_leaves_the_queue(how):
    with serving("--max-running", 1) as server:
        first, second = server.connect(), server.connect()
        first.sendall(request_bytes({**long_reply(), "stream": True}))
        read_until(first, b"data: ")
        second.sendall(request_bytes(long_reply()))
        server.wait_until(lambda state: state["jobs"]["waiting"] == 1, "waiting")
        leave(second, how)
        server.wait_until(lambda state: state["jobs"]["waiting"] == 0, "left")
        leave(first, how)
        server.expect_idle()
        first.close()
        second.close()


def test_many_leave_at_random_moments(server):
    def visit(seed):
        with server.connect() as connection:
            connection.sendall(request_bytes({**long_reply(), "stream": seed % 2 == 0, "seed": seed}))
            time.sleep(seed * 0.013)

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(visit, range(40)))


# --- clients that lag -----------------------------------------------------------------------------------------------


def test_a_slow_reader_gets_everything_and_holds_nobody_up(server):
    request = {**long_reply(), "max_tokens": 80, "logprobs": True, "top_logprobs": 20, "stream": True}
    before = server.state()["jobs"]["finished"]
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.port))
    with connection:
        connection.sendall(request_bytes(request))
        quick = server.chat("What is 17 + 25?", temperature=0, reasoning_effort="low")
        assert quick["choices"][0]["message"]["content"] == SUM
        server.wait_until(lambda state: state["jobs"]["finished"] == before + 2, "finished")
        received = read_until(connection, b"data: [DONE]")
    assert len(received) > 100_000


def test_bytes_may_come_one_by_one(server):
    data = request_bytes({"messages": user("Hi"), "max_tokens": 2})
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            connection.sendall(data[i : i + 1])
        assert b'"completion_tokens":2' in read_until(connection, b"}]")


def test_silent_connections_keep_nobody_waiting(server):
    silent = [server.connect() for _ in range(300)]
    for number, connection in enumerate(silent):
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"[: number % 60])
    assert server.chat("Hi", max_tokens=2)["usage"]["completion_tokens"] == 2
    for connection in silent:
        connection.close()


# --- too much -------------------------------------------------------------------------------------------------------

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
TOO_MUCH = {
    "a long header": (HEAD + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n", 431),
    "many headers": (HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(50_000)) + b"\r\n", 431),
    "a header without an end": (HEAD + b"X: y\r\n" * 200_000, 431),
    "a long path": (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
    "a body of ten terabytes": (HEAD + b"Content-Length: 10000000000000\r\n\r\n{", 413),
    "a length beyond numbers": (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n{", 400),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_refuses_too_much(server, name):
    data, wanted = TOO_MUCH[name]
    assert answer_to(server, data)[0] == wanted


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_a_body_without_an_end_is_cut_off():
    with serving("--max-body", "1m") as server:
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        before = resident_bytes(server)
        assert answer_to(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 200)[0] == 413
        assert resident_bytes(server) - before < 16 << 20
        server.expect_idle()


def test_bodies_of_the_largest_size_are_read_and_forgotten(server):
    body = b'{"messages":[{"role":"user","content":"' + b"a" * (32 << 20) + b'"}]}'
    statuses = [answer_to(server, request_bytes(body), timeout=60)[0] for _ in range(3)]
    assert statuses == [400] * 3  # too long for the context
    assert resident_bytes(server) < 1 << 30


# --- nonsense -------------------------------------------------------------------------------------------------------

NO_HTTP = {
    "nothing": b"",
    "line ends": b"\r\n" * 1000,
    "random bytes": bytes(range(256)) * 40,
    "the start of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
    "a length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length below zero": HEAD + b"Content-Length: -1\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a chunk of no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk of a huge size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n{}",
    "NUL in a header": HEAD + b"X: a\0b\r\n\r\n",
    "a space in a name": HEAD + b"X y: z\r\n\r\n",
    "no method": b" / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown method": b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", NO_HTTP)
def test_refuses_what_is_no_http(server, name):
    status, received = answer_to(server, NO_HTTP[name], half_close=True)
    assert status is None or 400 <= status < 500, received


BODIES = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of it": b'{"messages":[{"role":"user"',
    "two of them": b"{}{}",
    "no object": b"[1,2,3]",
    "deep arrays": b'{"messages":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"messages":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}",
    "an open depth": b"[" * 5_000_000,
    "five million values": b'{"messages":[' + b"0," * 5_000_000 + b"0]}",
    "a number without an end": b'{"messages":' + b"9" * 1_000_000 + b"}",
    "a number too large": b'{"messages":[{"role":"user","content":"x"}],"temperature":1e999}',
    "a seed too large": b'{"messages":[{"role":"user","content":"x"}],"seed":99999999999999999999999}',
    "invalid UTF-8": b'{"messages":[{"role":"user","content":"\xff\xfe\x80"}]}',
    "UTF-8 too long": b'{"messages":[{"role":"user","content":"\xc0\xaf"}]}',
    "UTF-8 of a surrogate": b'{"messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
    "UTF-8 cut off": b'{"messages":[{"role":"user","content":"\xe2\x82',
    "NUL": b'{"messages":[{"role":"user\0","content":"x"}]}',
    "a key twice": b'{"messages":[],"messages":[{"role":"user","content":"x"}],"max_tokens":0}',
    "a regular expression of doubt": json.dumps(
        {
            "messages": ADDITION,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "x",
                    "schema": {"type": "string", "pattern": "(((a{1000}){1000}){1000}){1000}"},
                },
            },
        }
    ).encode(),
    "a schema that refers to itself": json.dumps(
        {
            "messages": ADDITION,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}},
            },
        }
    ).encode(),
}


@pytest.mark.parametrize("name", BODIES)
def test_refuses_bodies_that_make_no_sense(server, name):
    begin = time.monotonic()
    answer = httpx.post(server.v1 + "/chat/completions", content=BODIES[name], timeout=30)
    assert answer.status_code == 400 and answer.json()["error"]["message"]
    for path in ("/v1/completions", "/tokenize", "/detokenize"):  # for them some of it is sense
        assert httpx.post(server.url + path, content=BODIES[name], timeout=30).status_code in (200, 400)
    assert time.monotonic() - begin < 20


def test_text_that_is_odd_but_allowed_is_answered(server):
    odd = "\u0000\u200f\ufeff\U0010ffff\ud7ff" + "e" + "\u0301" * 200 + "<|open|>message<|sep|>[EOS]"
    for text in (odd, "half a surrogate pair: \ud800"):
        assert server.chat(text, max_tokens=3)["usage"]["completion_tokens"] <= 3
