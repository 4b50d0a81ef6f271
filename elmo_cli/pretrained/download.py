"""Download a published model into the cache: limit the size of its files, verify, rename them.

The partial file NAME.part is resumed only if a published SHA-256 will verify the result; otherwise
each attempt starts over.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from elmo_cli import __version__
from elmo_cli.errors import DownloadError, ElmoError, ModelError
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import (
    OPTIONS_FILE,
    Model,
    RemoteFile,
    locked,
    model_dir,
    writing,
)
from elmo_cli.pretrained.load import installed_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.weightfile.describe import holds_bilm

TIMEOUT_S = 30.0  # of silence while connecting or receiving
ATTEMPTS = 4  # per address, without progress
BACKOFF_S = 1.0  # after the first failure; doubled after each further one
_CHUNK = 1 << 16
_PROGRESS = 1 << 20  # bytes after which earlier failures no longer count
_TRANSIENT_STATUS = frozenset({408, 416, 425, 429, 500, 502, 503, 504})
_NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


class _PermanentError(Exception):
    """This address will not provide the file."""


class _TransientError(Exception):
    """This attempt failed; the next one may succeed."""


def pull(
    model: Model,
    *,
    overwrite: bool = False,
    on_bytes: Callable[[int, int], None] = lambda done, total: None,
    on_wait: Callable[[], None] | None = None,
) -> ModelFiles:
    """Download the files of a model that are missing or not the published ones, or all of them with
    `overwrite`; an old file stays until the new one is verified.

    Args:
        on_bytes: called with the bytes of all files received so far and in total (0 if unknown).
        on_wait: called once if another process is downloading the same model.
    Raises:
        DownloadError, OutputError: no address provides a file; $ELMO_HOME cannot be written to.
        ModelError: ELMO_OFFLINE is set and there is something to download.
    """
    if not _files_to_fetch(model, overwrite):
        return installed_files(model)
    folder, total, received = model_dir(model), model.expected_bytes, 0
    if os.environ.get("ELMO_OFFLINE"):
        what = f"ELMO_OFFLINE is set, so the model `{model.name}` is not downloaded"
        raise ModelError(what, f"unset ELMO_OFFLINE, or put its files into {folder}")

    def on_file_bytes(n_bytes: int) -> None:
        on_bytes(received + n_bytes, total)

    with locked(folder, on_wait):
        for file in _files_to_fetch(model, overwrite):  # another process may have downloaded it
            download(file, folder, on_file_bytes)
            received += (folder / file.name).stat().st_size
    return installed_files(model)


def _files_to_fetch(model: Model, overwrite: bool) -> list[RemoteFile]:
    paths = [(file, model_dir(model) / file.name) for file in model.files]
    return [f for f, path in paths if overwrite or not path.is_file() or f.problem(path)]


def download(file: RemoteFile, folder: Path, on_bytes: Callable[[int], None]) -> None:
    """Download a file into a folder from the first of its addresses that provides it.

    `on_bytes` is called with the number of bytes received so far. Raises a DownloadError if no
    address provides the file, an OutputError if it cannot be written.
    """
    target, reasons = folder / file.name, []
    attempts = _Download(file, target.with_name(f"{target.name}.part"), on_bytes)
    for address in file.addresses:
        try:
            attempts.run(address)
        except _PermanentError as reason:
            reasons.append(f"{address}: {reason}")
            continue
        with writing(target):
            with open(attempts.part, "rb") as opened:
                os.fsync(opened.fileno())
            os.replace(attempts.part, target)
        return
    proxy = "set HTTPS_PROXY if you are behind a proxy"
    hint = f"run it again; {proxy}; or save the file as {target} yourself"
    raise DownloadError("; ".join(reasons), hint)


class _Download:
    """The attempts to fill one partial file."""

    def __init__(self, file: RemoteFile, part: Path, on_bytes: Callable[[int], None]) -> None:
        self.file, self.part, self.on_bytes = file, part, on_bytes

    def run(self, address: str) -> None:
        """Try one address until the partial file is complete and valid."""
        failures = 0
        while True:
            before = self._n_received()
            try:
                return self._attempt(address)
            except _TransientError as reason:
                has_progress = self._n_received() >= before + _PROGRESS
                failures = 1 if has_progress else failures + 1
                if failures >= ATTEMPTS:
                    raise _PermanentError(f"{reason} ({failures} attempts)") from None
            time.sleep(BACKOFF_S * 2 ** (failures - 1))

    def _attempt(self, address: str) -> None:
        requested = self._n_received() if self.file.sha256 else 0
        with self._open(address, requested) as response:
            start = requested if response.status == 206 else 0
            length = response.headers.get("Content-Length", "")
            total = start + int(length) if length.isdigit() else 0
            if total and (problem := self.file.size_problem(total)):
                if start:  # what an earlier attempt received may be of another file
                    self.part.unlink()
                raise (_TransientError if start else _PermanentError)(problem)
            size = self._receive(response, start)
        if size < total:
            raise _TransientError(f"cut off after {size} of {total} bytes")
        if problem := self.file.problem(self.part) or self._content_problem():
            self.part.unlink()
            # Bytes of an earlier attempt may be at fault.
            raise (_TransientError if requested else _PermanentError)(problem)

    def _open(self, address: str, start: int) -> http.client.HTTPResponse:
        """Request the content from byte START on."""
        headers = {"User-Agent": f"elmo-cli/{__version__}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        request = urllib.request.Request(address, headers=headers)
        opener = urllib.request.build_opener(_Redirects)  # reads the proxies of the environment
        try:
            return cast(http.client.HTTPResponse, opener.open(request, timeout=TIMEOUT_S))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # the partial file is as long as the file, or longer
                self.part.unlink(missing_ok=True)
            is_final = error.code not in _TRANSIENT_STATUS
            what = f"HTTP {error.code} {str(error.reason).partition(chr(10))[0]}"
        except _NETWORK_ERRORS as error:
            reason = getattr(error, "reason", error)
            is_final = isinstance(reason, (socket.gaierror, ssl.SSLCertVerificationError))
            what = f"cannot be reached ({reason})"
        raise (_PermanentError if is_final else _TransientError)(what)

    def _receive(self, response: http.client.HTTPResponse, size: int) -> int:
        """Append a response to the first `size` bytes of the partial file; return the new size."""
        with writing(self.part), open(self.part, "ab" if size else "wb") as output:
            self.on_bytes(size)
            while size <= self.file.max_bytes and (chunk := _read(response)):
                size += output.write(chunk)
                self.on_bytes(size)
        return size

    def _content_problem(self) -> str:
        """What is wrong with a complete file whose hash is not known; "" for nothing."""
        if self.file.sha256:
            return ""
        try:
            if self.file.name == OPTIONS_FILE:
                Options.from_file(self.part)
                return ""
            return "" if holds_bilm(self.part) else "is an HDF5 file without char_embed"
        except (ElmoError, OSError, RuntimeError) as error:  # the latter two as of h5py
            return f"cannot be read ({str(error).splitlines()[0]})"

    def _n_received(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK)
    except _NETWORK_ERRORS as error:
        raise _TransientError(f"interrupted ({str(error) or type(error).__name__})") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to https, and from http to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("https", urlsplit(req.full_url).scheme):
            raise _PermanentError(f"redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
