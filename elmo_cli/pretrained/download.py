"""Download one file over HTTP: resume a partial file, limit its size, verify it, rename it.

A partial file is called NAME.HASH.part. HASH identifies the content: the published SHA-256, or the
address and the version (ETag or date) that the server states. On any doubt a download starts over.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from elmo_cli.errors import DownloadError
from elmo_cli.pretrained.cache import writing
from elmo_cli.pretrained.catalogue import RemoteFile
from elmo_cli.version import __version__

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


def download(
    file: RemoteFile, target: Path, check: Callable[[Path], str], on_bytes: Callable[[int], None]
) -> None:
    """Download a file to TARGET from the first of its addresses that provides it.

    Args:
        check: returns what is wrong with the content of a complete file, "" for nothing.
        on_bytes: called with the number of bytes received so far.
    Raises:
        DownloadError, OutputError: no address provides it; it cannot be written.
    """
    attempts = _Download(file, target, check, on_bytes)
    reasons = []
    for address in file.addresses:
        try:
            part = attempts.run(address)
        except _PermanentError as reason:
            reasons.append(f"{address}: {reason}")
            continue
        with writing(target):
            with open(part, "rb") as opened:
                os.fsync(opened.fileno())
            os.replace(part, target)
        return
    raise DownloadError(
        "; ".join(reasons),
        "run it again to resume; set HTTPS_PROXY if you are behind a proxy; or save the file as "
        f"{target} yourself",
    )


@dataclass(frozen=True)
class _Download:
    file: RemoteFile
    target: Path
    check: Callable[[Path], str]
    on_bytes: Callable[[int], None]

    def run(self, address: str) -> Path:
        """Try one address until it provides the file; return the complete partial file."""
        failures, before = 0, self._n_received()
        while True:
            try:
                return self._attempt(address)
            except _TransientError as reason:
                if self._n_received() >= before + _PROGRESS:
                    failures, before = 0, self._n_received()
                failures += 1
                if failures >= ATTEMPTS:
                    raise _PermanentError(f"{reason} ({failures} attempts)") from None
            time.sleep(BACKOFF_S * 2 ** (failures - 1))

    def _attempt(self, address: str) -> Path:
        found, start = self._find_part(), self._n_received()
        with self._open(address, start) as response:
            part, span = self._part_of(address, response), response.headers.get("Content-Range", "")
            if response.status != 206:
                start = 0
            elif part != found or not span.startswith(f"bytes {start}-"):
                self._discard()
                raise _TransientError("sends the rest of another version")
            length = response.headers.get("Content-Length", "")
            total = start + int(length) if length.isdigit() else 0
            self._refuse_headers(response, total)
            if not start:
                self._discard()
            size = self._append(part, start, response)
        if size < total:
            raise _TransientError(f"cut off after {size} of {total} bytes")
        if problem := self.file.problem(part) or self.check(part):
            self._discard()
            # The bytes of an earlier attempt may be the wrong ones.
            raise (_TransientError if found else _PermanentError)(problem)
        return part

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
                self._discard()
            is_final = error.code not in _TRANSIENT_STATUS
            what = f"HTTP {error.code} {str(error.reason).partition(chr(10))[0]}"
        except _NETWORK_ERRORS as error:
            reason = getattr(error, "reason", error)
            no_host = isinstance(reason, socket.gaierror) and not start
            is_final = no_host or isinstance(reason, ssl.SSLCertVerificationError)
            what = f"cannot be reached ({reason})"
        raise (_PermanentError if is_final else _TransientError)(what)

    def _append(self, part: Path, size: int, response: http.client.HTTPResponse) -> int:
        """Append a response to a partial file of SIZE bytes; return its new size."""
        with writing(part), open(part, "ab") as output:
            self.on_bytes(size)
            for chunk in _chunks(response):
                size += output.write(chunk)
                self.on_bytes(size)
                if size > self.file.max_bytes:
                    break
        return size

    def _refuse_headers(self, response: http.client.HTTPResponse, total: int) -> None:
        if response.headers.get_content_type() == "text/html":
            raise _PermanentError("sends a web page, not the file")
        if total and (problem := self.file.size_problem(total)):
            raise _PermanentError(f"announces {problem}")

    def _part_of(self, address: str, response: http.client.HTTPResponse) -> Path:
        tag = response.headers.get("ETag", "W/")  # a weak one does not identify the bytes
        version = response.headers.get("Last-Modified", "") if tag.startswith("W/") else tag
        # Without a version nothing shows that two parts belong together.
        content = self.file.sha256 or f"{address} {version or os.urandom(8).hex()}"
        digest = hashlib.sha256(content.encode()).hexdigest()
        return self.target.with_name(f"{self.target.name}.{digest[:8]}.part")

    def _find_part(self) -> Path | None:
        return next(self.target.parent.glob(f"{self.target.name}.*.part"), None)

    def _n_received(self) -> int:
        part = self._find_part()
        return part.stat().st_size if part else 0

    def _discard(self) -> None:
        while part := self._find_part():
            with writing(part):
                part.unlink()


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read1(_CHUNK):
            yield chunk
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
