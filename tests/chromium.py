"""Chromium without a window and without a network, driven through two pipes."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

_LOAD_S = 30
_CHUNK_BYTES = 1 << 20
_LOCAL_SCHEMES = ("file:", "data:", "about:", "blob:")


def find_chromium() -> str | None:
    for name in ("chromium", "chromium-browser", "chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


CHROMIUM = find_chromium()
NO_CHROMIUM = "no Chromium: `apt-get install chromium`"


class Chromium:
    """One tab of a browser; `close` ends it.

    Commands and events are those of the DevTools protocol: JSON, each followed by a zero byte.

    Args:
        profile: an empty folder for its files.
    """

    def __init__(self, profile: Path) -> None:
        command_input, self._commands = os.pipe()
        self._answers, answer_output = os.pipe()
        words = [
            str(CHROMIUM),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND",  # requests to the network fail
            "about:blank",
        ]
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        redirect = f'exec "$@" 3<&{command_input} 4>&{answer_output}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", *words],
            pass_fds=(command_input, answer_output),
            stderr=subprocess.DEVNULL,
        )
        os.close(command_input)
        os.close(answer_output)
        self._received = b""
        self._n_commands = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def show_as(self, *, width: int, scheme: str) -> None:
        """Set the width of the window in pixels and the color scheme, `light` or `dark`."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, address: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._events.clear()
        self._call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, which JSON can express."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Return the errors of the page since `open`, and its requests that leave the disk."""
        complaints = []
        for event in self._events:
            method = event.get("method")
            details = event.get("params", {})
            if method == "Log.entryAdded" and details["entry"]["level"] == "error":
                complaints.append(details["entry"]["text"])
            elif method == "Runtime.exceptionThrown":
                complaints.append(details["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and details["type"] == "error":
                complaints.append(f"console: {details['args']}")
            elif method == "Network.loadingFailed":
                complaints.append(details["errorText"])
            elif method == "Network.requestWillBeSent":
                address = details["request"]["url"]
                if not address.startswith(_LOCAL_SCHEMES):
                    complaints.append(f"request: {address}")
        return complaints

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._n_commands += 1
        command = {"id": self._n_commands, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._n_commands:
                assert "error" not in message, message
                return dict(message["result"])
            self._events.append(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            is_ready, _, _ = select.select([self._answers], [], [], _LOAD_S)
            chunk = os.read(self._answers, _CHUNK_BYTES) if is_ready else b""
            if not chunk:
                raise TimeoutError("Chromium does not answer")
            self._received += chunk
        message, self._received = self._received.split(b"\0", 1)
        return dict(json.loads(message))
