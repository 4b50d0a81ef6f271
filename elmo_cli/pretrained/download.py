"""Download a published model into the cache: limit the size of its files, verify, rename them.

An interrupted download leaves NAME.part. The next one resumes it if a published SHA-256 will verify
the result; otherwise it starts over.
"""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from elmo_cli.errors import DownloadError, ElmoError, ModelError
from elmo_cli.file_locks import abandoned_lock
from elmo_cli.model.options import Options
from elmo_cli.model_folder import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.catalogue import (
    Model,
    RemoteFile,
    lock_path,
    locked,
    model_dir,
    writing,
)
from elmo_cli.pretrained.load import installed_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.version import __version__
from elmo_cli.weightfile.describe import holds_bilm

TIMEOUT_S = 30.0  # of silence while connecting or receiving
_CHUNK = 1 << 16
_MAX_DIGITS = 18  # of a number of bytes
_PARTIAL_CONTENT = 206  # status codes of HTTP
_RANGE_NOT_SATISFIABLE = 416
_NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


class AddressError(Exception):
    """The reason why an address did not provide the file.

    Args:
        status: that of the answer of the server; 0 if there was none.
    """

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


def pull(
    model: Model,
    *,
    overwrite: bool = False,
    on_bytes: Callable[[int, int], None] | None = None,
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
    folder = model_dir(model)
    if not _files_to_fetch(model, overwrite):
        _remove_leftovers(model, folder)
        return installed_files(model)
    if os.environ.get("ELMO_OFFLINE"):
        problem = f"ELMO_OFFLINE is set, so the model `{model.name}` is not downloaded"
        raise ModelError(problem, f"unset ELMO_OFFLINE, or put its files into {folder}")
    total = model.expected_bytes
    received = 0  # bytes of complete files

    def on_file_bytes(n_bytes: int) -> None:
        if on_bytes is not None:
            on_bytes(received + n_bytes, total)

    with locked(folder, on_wait):
        for file in _files_to_fetch(model, overwrite):  # another process may have downloaded it
            download(file, folder, on_file_bytes)
            received += (folder / file.name).stat().st_size
    return installed_files(model)


def _remove_leftovers(model: Model, folder: Path) -> None:
    """Remove what a killed download has left next to complete files."""
    with suppress(OSError), abandoned_lock(lock_path(folder)) as is_abandoned:
        if is_abandoned:
            for file in model.files:
                part_path(folder / file.name).unlink(missing_ok=True)


def part_path(target: Path) -> Path:
    """The file that a download is written to until it is verified."""
    return target.with_name(f"{target.name}.part")


def _files_to_fetch(model: Model, overwrite: bool) -> list[RemoteFile]:
    to_fetch = []
    for file in model.files:
        path = model_dir(model) / file.name
        if overwrite or not path.is_file() or file.problem(path):
            to_fetch.append(file)
    return to_fetch


def download(file: RemoteFile, folder: Path, on_bytes: Callable[[int], None]) -> None:
    """Download a file into a folder, from its addresses in turn, each of which is tried twice.

    `on_bytes` is called with the number of bytes received so far. Raises a DownloadError if no
    address provides the file, an OutputError if it cannot be written.
    """
    target = folder / file.name
    part = part_path(target)
    reasons: dict[str, str] = {}  # by address; that of the second try replaces the first
    for address in (*file.addresses, *file.addresses):  # a second try resumes the first
        try:
            _fetch(file, address, part, on_bytes)
        except AddressError as error:
            reasons[address] = f"{address}: {error}"
            continue
        with writing(target):
            with open(part, "rb") as opened:
                os.fsync(opened.fileno())
            os.replace(part, target)
        return
    proxy = "set HTTPS_PROXY if you are behind a proxy"
    hint = f"run it again; {proxy}; or save the file as {target} yourself"
    raise DownloadError("; ".join(reasons.values()), hint)


def _fetch(file: RemoteFile, address: str, part: Path, on_bytes: Callable[[int], None]) -> None:
    """Download from one address into the partial file; remove it if its content is wrong."""
    start = part.stat().st_size if file.sha256 and part.exists() else 0
    if start >= file.max_bytes:
        start = 0
    try:
        response = open_address(address, start)
    except AddressError as error:
        if error.status == _RANGE_NOT_SATISFIABLE:  # the partial file is not shorter than the file
            part.unlink(missing_ok=True)
        raise
    with response:
        if response.status != _PARTIAL_CONTENT:  # the server sends the whole file
            start = 0
        length = stated_bytes(response.headers.get("Content-Length", ""))
        total = 0 if length is None else start + length  # 0: unknown
        size_problem = file.size_problem(total) if total else ""
        if size_problem:
            raise AddressError(size_problem)
        size = start
        with writing(part), open(part, "ab" if start else "wb") as output:
            on_bytes(size)
            while size <= file.max_bytes:
                chunk = _read(response)
                if not chunk:
                    break
                size += output.write(chunk)
                on_bytes(size)
    if size < total:
        raise AddressError(f"cut off after {size} of {total} bytes")
    problem = file.problem(part) or _content_problem(file, part)
    if problem:
        part.unlink()
        raise AddressError(problem)


def open_address(
    address: str, start: int = 0, *, redirects: Redirects | None = None
) -> http.client.HTTPResponse:
    """Request the content from byte START on; or AddressError.

    Args:
        redirects: decides which redirects are followed; by default, all that are safe.
    """
    headers = {"User-Agent": f"elmo-cli/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(address, headers=headers)
    # It reads the proxies of the environment.
    opener = urllib.request.build_opener(redirects or Redirects())
    try:
        return cast(http.client.HTTPResponse, opener.open(request, timeout=TIMEOUT_S))
    except urllib.error.HTTPError as error:
        error.close()
        reason = str(error.reason).partition("\n")[0]  # as the server states it
        raise AddressError(f"HTTP {error.code} {reason}", error.code) from None
    except _NETWORK_ERRORS as error:
        raise AddressError(f"cannot be reached ({getattr(error, 'reason', error)})") from None


def stated_bytes(header: str) -> int | None:
    """The number of bytes that a header states; None if it states none."""
    is_number = header.isascii() and header.isdigit() and len(header) <= _MAX_DIGITS
    return int(header) if is_number else None


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK)
    except _NETWORK_ERRORS as error:
        raise AddressError(f"interrupted ({str(error) or type(error).__name__})") from None


def _content_problem(file: RemoteFile, path: Path) -> str:
    """What is wrong with a complete file whose hash is not known; "" for nothing."""
    if file.sha256:
        return ""
    try:
        if file.name == OPTIONS_FILE:
            Options.from_file(path)
        elif file.name == WEIGHTS_FILE and not holds_bilm(path):
            return "is an HDF5 file without char_embed"
        return ""
    except ElmoError as error:
        return f"cannot be read ({error.message})"
    except (OSError, RuntimeError) as error:  # of h5py, whose texts have several lines
        return f"cannot be read ({str(error).splitlines()[0]})"


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to https, and from http to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("https", urlsplit(req.full_url).scheme):
            raise AddressError(f"redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
