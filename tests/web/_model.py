"""A model that says what a test wants, in the form of the server's streams; and one that never stops."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 30, "completion_tokens": 11, "total_tokens": 41,
         "completion_tokens_details": {"reasoning_tokens": 4}, "prompt_tokens_details": {"cached_tokens": 20}}


def chunk(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [choice], **more})}\n\n"


def stream(content="", reasoning="", calls=(), finish=None):
    """A whole reply as a stream; the content comes in pieces."""
    text = chunk({"role": "assistant", "content": ""})
    if reasoning:
        text += chunk({"reasoning_content": reasoning}) + chunk({"reasoning_content": ""})
    size = max(len(content) // 20, 1)
    text += "".join(chunk({"content": content[at:at + size]}) for at in range(0, len(content), size))
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        text += chunk({"tool_calls": [{"index": index, "id": f"{name}_{index}", "type": "function", "function": function}]})
        text += chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    text += chunk({}, finish or ("tool_calls" if calls else "stop"), usage=USAGE)
    return text + "data: [DONE]\n\n"


class ScriptedModel:
    """Answers a page's chat requests with the given streams in turn, the last one again and again."""

    def __init__(self, page, *streams, status=200):
        self.requests = []  # bodies
        self.streams = list(streams)
        self.status = status
        page.route("**/v1/chat/completions", self._answer)

    def _answer(self, route):
        self.requests.append(route.request.post_data_json)
        body = self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]
        kind = "text/event-stream" if self.status == 200 else "application/json"
        route.fulfill(status=self.status, content_type=kind, body=body)


class EndlessModel:
    """Says the same delta every 20 ms until its client leaves."""

    def __init__(self, delta):
        self.client_left = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                try:
                    while not model.client_left.wait(0.02):
                        self.wfile.write(chunk(delta).encode())
                except OSError:
                    model.client_left.set()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/chat/completions"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.client_left.set()
        self._server.shutdown()
        self._server.server_close()
