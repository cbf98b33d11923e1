"""A small server that speaks the four AWS protocols a client needs (SSM, Lambda, EventBridge, S3), over real HTTP."""

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

from agent_memory import contract

NAMES = {name: f"the-{name}" for name in contract.PARAMETER_NAMES}
PAGE = 4


class StandIn:
    """What the server was asked, and what it is to answer. Set *answer* to script the bootstrap function."""

    def __init__(self, environment: str) -> None:
        self.names: dict[str, str] = dict(NAMES)
        self.environment = environment
        self.questions: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.objects: dict[str, bytes] = {}
        self.failures_of_put: list[str] = []
        self.refused_actions: set[str] = set()
        self.calls: list[str] = []
        self.answer: Callable[[dict[str, Any]], object] = lambda _: {
            "context": "",
            "items": [],
            "degraded": [],
            "nothing_relevant": True,
            "context_id": "c-1",
            "timings": {},
        }
        self.function_error = False

    @property
    def details(self) -> list[dict[str, Any]]:
        """The details of the events that were taken."""
        return [json.loads(entry["Detail"]) for entry in self.entries]

    def transcript(self, uri: str) -> Any:
        """What was uploaded under an s3:// address."""
        return json.loads(gzip.decompress(self.objects[uri.removeprefix("s3://")]))

    def json_call(self, target: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        action = target.rsplit(".", 1)[-1]
        self.calls.append(action)
        if action in self.refused_actions:
            return 400, {"__type": "AccessDeniedException", "message": "no"}
        if action == "GetParametersByPath":
            return 200, self._parameters(body)
        return 200, self._put_events(body)

    def _parameters(self, body: dict[str, Any]) -> dict[str, Any]:
        root = f"/agent-memory/{self.environment}/"
        if body["Path"] == "/agent-memory/":
            return {"Parameters": [{"Name": f"{root}bus", "Type": "String", "Value": "x"}]}
        names = sorted(self.names) if body["Path"] == root else []
        start = int(body.get("NextToken", "0"))
        page = [{"Name": root + n, "Type": "String", "Value": self.names[n]} for n in names[start : start + PAGE]]
        more = {"NextToken": str(start + PAGE)} if start + PAGE < len(names) else {}
        return {"Parameters": page, **more}

    def _put_events(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.failures_of_put:
            code = self.failures_of_put.pop(0)
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": code, "ErrorMessage": "later"}]}
        self.entries += body["Entries"]
        return {"FailedEntryCount": 0, "Entries": [{"EventId": f"e-{len(self.entries)}"}]}


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self._body() or b"{}")
            if "/functions/" in self.path:
                stand_in.questions.append(body)
                headers = {"X-Amz-Function-Error": "Unhandled"} if stand_in.function_error else {}
                self._send(200, json.dumps(stand_in.answer(body)).encode(), headers)
                return
            status, answer = stand_in.json_call(self.headers["X-Amz-Target"], body)
            self._send(status, json.dumps(answer).encode())

        def do_PUT(self) -> None:
            if "PutObject" in stand_in.refused_actions:
                self._body()
                self._send(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
                return
            stand_in.objects[unquote(self.path.split("?")[0]).lstrip("/")] = self._body()
            self._send(200, b"", {"ETag": '"x"'})

        def _body(self) -> bytes:
            if self.headers.get("Expect") == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return _unchunked(body) if "aws-chunked" in (self.headers.get("Content-Encoding") or "") else body

        def _send(self, status: int, body: bytes, headers: Mapping[str, str] = {}) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/x-amz-json-1.1", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        whole, body = whole + body[:length], body[length + 2 :]
    return whole


@contextmanager
def a_stand_in(environment: str = "test") -> Iterator[StandIn]:
    """Serve on the loopback, with this process pointed at it."""
    stand_in = StandIn(environment)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(stand_in))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        with patch.dict(os.environ, variables):
            for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
                os.environ.pop(name, None)
            yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
