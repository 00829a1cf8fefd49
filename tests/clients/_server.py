"""Starting `perigee serve`, knowing what it is doing, and ending it. Standard library only; no API client is here.

The program is named by the variable PERIGEE.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
NANO = Path(__file__).resolve().parents[2] / "models" / "nano"
START_SECONDS = 60
IDLE_SECONDS = 60  # a machine with much else to do


def die_with_parent():
    """No server survives tests that were killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Server:
    """A running server. `log` holds its lines so far."""

    def __init__(self, arguments):
        command = [PERIGEE, "serve", "-m", str(NANO), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )
        self.log = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_SECONDS) or self.process.poll() is not None:
            self.kill()
            raise AssertionError(f"{' '.join(command)} does not listen:\n{''.join(self.log)}")

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            if "listening on" in line:
                self._listening.set()
        self._listening.set()  # it died

    @property
    def url(self):
        found = [match[1] for line in self.log if (match := re.search(r"listening on (https?://\S+)", line))]
        return found[0]

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    @property
    def v1(self):
        return self.url + "/v1"

    def state(self):
        return self.get_json("/v1/state")

    def get_json(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def post(self, path, body):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def chat(self, text, **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def connect(self, timeout=20.0):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def wait_until(self, condition, what, seconds=IDLE_SECONDS):
        """Looks at the state until it is as wanted."""
        end = time.monotonic() + seconds
        while not condition(state := self.state()):
            assert time.monotonic() < end, f"after {seconds} s still not {what}: {state}"
            time.sleep(0.02)
        return state

    def expect_idle(self):
        """Nothing runs, nothing waits, and no memory is set aside: no sequence has leaked."""
        assert self.process.poll() is None, f"the server died:\n{''.join(self.log)}"
        self.wait_until(
            lambda state: (
                not state["jobs"]["running"]
                and not state["jobs"]["waiting"]
                and not state["state_memory"]["reserved_bytes"]
            ),
            "idle",
        )

    def stop(self):
        """As an operator does it; the exit status says that it was asked to."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(timeout=10)


@contextlib.contextmanager
def serving(*arguments, port=0):
    """A server with more options, stopped at the end."""
    server = Server(["--port", port, *arguments])
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
