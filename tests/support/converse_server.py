"""A tiny Bedrock Runtime that answers Converse over real HTTP, as scripted."""

import json
import os
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_SESSION_TOKEN": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}
Answer = dict[str, Any] | tuple[int, str, str]


def converse(*blocks: dict[str, Any], stop: str = "tool_use", usage: dict[str, int] | None = None) -> dict[str, Any]:
    """The body of a Converse answer with these content blocks."""
    return {
        "output": {"message": {"role": "assistant", "content": list(blocks)}},
        "stopReason": stop,
        "usage": usage if usage is not None else {"inputTokens": 700, "outputTokens": 90, "totalTokens": 790},
        "metrics": {"latencyMs": 1},
    }


def tool_use(arguments: object) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": "t-1", "name": "record", "input": arguments}}


class ConverseServer:
    """What it was asked (model id and body), and what it is to answer: bodies, or (status, error code, message).

    *script*: answers each question by what it asks, instead of *answers*. *beyond*: the server that answers everything
    else, embeddings for one."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[Answer] = []
        self.script: Callable[[dict[str, Any]], Answer] | None = None
        self.beyond = ""

    def answer_to(self, body: dict[str, Any]) -> Answer:
        if self.script is not None:
            return self.script(body)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _asked_of(url: str, body: bytes) -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
        found: bytes = answer.read()
    return found


def _handler(server: ConverseServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if server.beyond and not self.path.endswith("/converse"):
                self._tell(200, {}, _asked_of(f"{server.beyond}{self.path}", raw))
                return
            body = json.loads(raw)
            server.requests.append((unquote(self.path.split("/")[2]), body))
            answer = server.answer_to(body)
            status, headers, content = 200, {}, answer
            if isinstance(answer, tuple):
                status, code, message = answer
                headers, content = {"x-amzn-ErrorType": code}, {"message": message}
            self._tell(status, headers, json.dumps(content).encode())

        def _tell(self, status: int, headers: dict[str, str], payload: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json", "Content-Length": len(payload)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            return

    return Handler


@contextmanager
def serving(script: ConverseServer) -> Iterator[str]:
    """Serve *script* on a free port of the loopback, at the URL that this gives."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=2)


@contextmanager
def a_converse_server() -> Iterator[ConverseServer]:
    """Serve on a free port of the loopback and point the SDK at it."""
    script = ConverseServer()
    with serving(script) as url, patch.dict(os.environ, {**CREDENTIALS, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url}):
        yield script
