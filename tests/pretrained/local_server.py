"""A web server on this machine that can be told to stall, to cut off and to lie."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[["Handler", bytes], None]


class LocalServer:
    """Serves `files` by path; `acts[path]` are the next answers that differ from the usual one."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.acts: dict[str, list[Act]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.version = "1"
        self.released = threading.Event()
        self._http = _Http(("127.0.0.1", 0), Handler)
        self._http.local = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def headers_seen(self, name: str) -> list[dict[str, str]]:
        return [headers for path, headers in self.seen if path == f"/{name}"]

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    local: LocalServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One request; `server.local` says how to answer it."""

    server: _Http

    def do_GET(self) -> None:
        local = self.server.local
        local.seen.append((self.path, dict(self.headers)))
        acts = local.acts.get(self.path.lstrip("/"), [])
        content = local.files.get(self.path.lstrip("/"))
        if acts:
            acts.pop(0)(self, content or b"")
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
        """Not into the output of the tests."""


def serve(handler: Handler, content: bytes) -> None:
    """As a good server does: ranges, and a whole file if its version is another."""
    tag = f'"{handler.server.local.version}"'
    start, unit = 0, handler.headers.get("Range", "")
    if unit and handler.headers.get("If-Range", tag) == tag:
        start = int(unit.removeprefix("bytes=").rstrip("-"))
    if start >= len(content) and start:
        handler.begin(416, Content_Range=f"bytes */{len(content)}", Content_Length=0)
        return
    span = f"bytes {start}-{len(content) - 1}/{len(content)}"
    more = {"Content_Range": span} if start else {}
    handler.begin(206 if start else 200, ETag=tag, Content_Length=len(content) - start, **more)
    handler.wfile.write(content[start:])


def ignore_range(handler: Handler, content: bytes) -> None:
    handler.begin(200, Content_Length=len(content))
    handler.wfile.write(content)


def cut_off(n_bytes: int) -> Act:
    """Announce everything, send `n_bytes` of it, hang up."""

    def act(handler: Handler, content: bytes) -> None:
        tag = f'"{handler.server.local.version}"'
        handler.begin(200, ETag=tag, Content_Length=len(content))
        handler.wfile.write(content[:n_bytes])

    return act


def stall(n_bytes: int) -> Act:
    """Announce everything, send `n_bytes` of it, fall silent."""

    def act(handler: Handler, content: bytes) -> None:
        cut_off(n_bytes)(handler, content)
        handler.wfile.flush()
        handler.server.local.released.wait(10)

    return act


def status(code: int) -> Act:
    return lambda handler, content: handler.send_error(code)


def redirect(address: str) -> Act:
    return lambda handler, content: handler.begin(302, Location=address, Content_Length=0)


def answer(body: bytes, **headers: object) -> Act:
    """Status 200, these headers and this body, then hang up; no length unless it is given."""

    def act(handler: Handler, content: bytes) -> None:
        handler.begin(200, **headers)
        handler.wfile.write(body)

    return act
