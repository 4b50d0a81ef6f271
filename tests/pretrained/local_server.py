"""An HTTP server on this machine that stalls, cuts off, redirects and lies on request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", bytes], None]


class LocalServer(ThreadingHTTPServer):
    """Serves `files` by path, with `headers[path]` in addition.

    `always[path]` is an answer other than the file, and `answers[path]` are the next ones that
    differ from the usual one. `seen` has the path and the range of each request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, object]] = {}
        self.always: dict[str, Answer] = {}
        self.answers: dict[str, list[Answer]] = {}
        self.seen: list[tuple[str, str]] = []
        self.released = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"

    @property
    def ranges(self) -> list[str]:
        return [span.removeprefix("bytes=") for _, span in self.seen]

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, *_: Any) -> None:
        """Print nothing: clients that hang up are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.seen.append((name, self.headers.get("Range", "")))
        answers = self.server.answers.get(name, [])
        content = self.server.files.get(name)
        if answers:
            next_answer = answers.pop(0)
            next_answer(self, content or b"")
        elif name in self.server.always:
            self.server.always[name](self, content or b"")
        elif content is None:
            self.send_error(404)
        else:
            serve(self, content)

    def begin(self, code: int, **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def serve(handler: Handler, content: bytes, n_bytes: int | None = None) -> None:
    """Serve a file or the rest of it, or announce that and send N bytes of it."""
    span = handler.headers.get("Range", "")
    start = int(span[len("bytes=") : -1]) if span else 0
    if start >= len(content) and start:
        handler.send_error(416)
        return
    headers: dict[str, object] = {"Content_Length": len(content) - start}
    headers |= handler.server.headers.get(handler.path.lstrip("/"), {})
    if span:
        headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    handler.begin(206 if span else 200, **headers)
    handler.wfile.write(content[start:][:n_bytes])


def cut(n_bytes: int) -> Answer:
    """Announce everything, send N bytes, hang up."""

    def send(handler: Handler, content: bytes) -> None:
        serve(handler, content, n_bytes)

    return send


def stall(n_bytes: int) -> Answer:
    """Announce everything, send N bytes, then nothing."""

    def send(handler: Handler, content: bytes) -> None:
        serve(handler, content, n_bytes)
        handler.server.released.wait(10)

    return send


def status(code: int) -> Answer:
    """Send an error."""

    def send(handler: Handler, content: bytes) -> None:
        handler.send_error(code)

    return send


def redirect(address: str, **headers: object) -> Answer:
    def send(handler: Handler, content: bytes) -> None:
        handler.begin(302, Location=address, Content_Length=0, **headers)

    return send


def answer(body: bytes, code: int = 200, **headers: object) -> Answer:
    """Send these headers and this body, then hang up; without a length unless it is given."""

    def send(handler: Handler, content: bytes) -> None:
        handler.begin(code, **headers)
        handler.wfile.write(body)

    return send
