"""An HTTP server on this machine that stalls, cuts off, redirects and lies on request."""

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
        self.seen: list[tuple[str, str]] = []  # path, Range
        self.version: str | None = '"1"'
        self.released = threading.Event()
        self._http = _Http(("127.0.0.1", 0), Handler)
        self._http.local = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/{name}"

    @property
    def ranges(self) -> list[str]:
        """What the requests asked for, "" for the whole file."""
        return [unit.removeprefix("bytes=") for _, unit in self.seen]

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    local: LocalServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients that hang up are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        local, name = self.server.local, self.path.lstrip("/")
        local.seen.append((self.path, self.headers.get("Range", "")))
        acts, content = local.acts.get(name, []), local.files.get(name)
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

    def version(self) -> dict[str, str]:
        tag = self.server.local.version
        return {"ETag": tag} if tag else {}

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def serve(handler: Handler, content: bytes) -> None:
    """Serve a file or the rest of it, without looking at its version."""
    unit = handler.headers.get("Range", "")
    start = int(unit.removeprefix("bytes=").rstrip("-")) if unit else 0
    if start >= len(content) and start:
        handler.begin(416, Content_Range=f"bytes */{len(content)}", Content_Length=0)
        return
    span = {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if unit else {}
    size = len(content) - start
    handler.begin(206 if unit else 200, Content_Length=size, **handler.version(), **span)
    handler.wfile.write(content[start:])


def whole(handler: Handler, content: bytes) -> None:
    """Serve all of a file, whatever was asked for."""
    handler.begin(200, Content_Length=len(content))
    handler.wfile.write(content)


def cut(n_bytes: int, *, stall: bool = False) -> Act:
    """Announce everything, send N bytes of it, then hang up or send nothing more."""

    def act(handler: Handler, content: bytes) -> None:
        handler.begin(200, Content_Length=len(content), **handler.version())
        handler.wfile.write(content[:n_bytes])
        if stall:
            handler.wfile.flush()
            handler.server.local.released.wait(10)

    return act


def status(code: int) -> Act:
    return lambda handler, content: handler.send_error(code)


def redirect(address: str) -> Act:
    return lambda handler, content: handler.begin(302, Location=address, Content_Length=0)


def answer(body: bytes, code: int = 200, **headers: object) -> Act:
    """Send these headers and this body, then hang up; without a length unless it is given."""

    def act(handler: Handler, content: bytes) -> None:
        handler.begin(code, **headers)
        handler.wfile.write(body)

    return act
