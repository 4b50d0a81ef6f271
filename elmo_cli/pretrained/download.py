"""One file over HTTP: to a part file, resumed where it was cut off, its size and hash checked.

Nothing that a server says is believed: the length it states, the length it sends, the kind of
content and the hash are compared with the catalogue before the file gets its name.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from elmo_cli.errors import DownloadError, ElmoError, OutputError
from elmo_cli.pretrained.cache import not_writable
from elmo_cli.pretrained.catalogue import RemoteFile
from elmo_cli.pretrained.part import Part
from elmo_cli.version import __version__

OnBytes = Callable[[int, int], None]
_CHUNK = 1 << 16
_PROGRESS = 1 << 20  # bytes that count as progress, after which the tries begin anew
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LARGEST_TEXT, _LARGEST = 1 << 20, 1 << 33


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server.

    Attributes:
        timeout_s: longest silence while connecting or reading.
        tries: attempts in a row without progress, for each address.
        pause_s: pause after the first failure; doubled after each further one.
    """

    timeout_s: float = 30.0
    tries: int = 4
    pause_s: float = 1.0


class _RefusedError(Exception):
    """This address won't give the file, now or later."""


class _CutOffError(Exception):
    """This attempt failed; the next may not."""


def download(
    file: RemoteFile,
    target: Path,
    *,
    check: Callable[[Path], str] = lambda path: "",
    on_bytes: OnBytes = lambda done, total: None,
    patience: Patience | None = None,
) -> str:
    """Fetch a file to `target`, from the first of its addresses that gives it.

    An unfinished `target.part` is gone on with if the server can.

    Args:
        check: tells what is wrong with a complete part file, "" for nothing.
        on_bytes: called with the bytes that are there and the bytes that will be (0 if unknown).
    Returns:
        The sha256 of the file, in hex.
    Raises:
        DownloadError: no address gives it; the message holds each address with its reason.
        OutputError: it can't be written.
    """
    fetch = _Fetch(file, Part(target), check, on_bytes, patience or Patience())
    reasons = []
    for address in file.addresses:
        try:
            digest = fetch.from_address(address)
        except _RefusedError as reason:
            reasons.append(f"{address}: {reason}")
        else:
            fetch.part.finish()
            return digest
    raise DownloadError(
        "; ".join(reasons),
        f"run it again to go on, set HTTPS_PROXY if you are behind a proxy, or put the file at "
        f"{target} by hand",
    )


@dataclass
class _Fetch:
    """One file on its way."""

    file: RemoteFile
    part: Part
    check: Callable[[Path], str]
    on_bytes: OnBytes
    patience: Patience

    def from_address(self, address: str) -> str:
        """Try one address until it gives the file, refuses, or patience ends."""
        if urlsplit(address).scheme not in ("http", "https"):
            raise _RefusedError("not an http or https address")
        failures, progress = 0, self.part.bytes
        while True:
            try:
                return self._attempt(address)
            except _CutOffError as reason:
                failures = 1 if self.part.bytes >= progress + _PROGRESS else failures + 1
                progress = self.part.bytes
                if failures >= self.patience.tries:
                    raise _RefusedError(f"{reason} ({failures} tries)") from None
            time.sleep(self.patience.pause_s * 2 ** (failures - 1))

    def _attempt(self, address: str) -> str:
        """Bring the part file to its end, and check it."""
        if not self.part.belongs_to(address, is_checked=self.file.sha256 is not None):
            self.part.discard()
        found = self.part.bytes
        digest = self._complete(address)
        wrong = self.file.difference(self.part.bytes, lambda: digest)
        wrong = wrong or self.check(self.part.path)
        if not wrong:
            return digest
        self.part.discard()
        # What was there before may be to blame, so the whole file gets another chance.
        raise _CutOffError(wrong) if found else _RefusedError(wrong)

    def _complete(self, address: str) -> str:
        if self.file.bytes is not None and self.part.bytes == self.file.bytes:
            return self.part.sha256().hexdigest()
        headers = {
            "User-Agent": f"elmo-cli/{__version__}",
            "Accept-Encoding": "identity",
            **self.part.range_headers(address),
        }
        try:
            # Made anew each time, since it reads the proxy settings of the environment.
            opener = urllib.request.build_opener(_Redirects)
            request = urllib.request.Request(address, headers=headers)
            with opener.open(request, timeout=self.patience.timeout_s) as response:
                return self._receive(address, response)
        except ElmoError:
            raise  # a full disk is an OSError too
        except urllib.error.HTTPError as error:
            with error:
                return self._after_status(error)
        except urllib.error.URLError as error:
            said = f"can't be reached ({error.reason})"
            final = _is_final(error.reason)
            raise _RefusedError(said) if final else _CutOffError(said) from None
        except TimeoutError:
            silence = f"silent for {self.patience.timeout_s:g} s"
            raise _CutOffError(f"{silence} after {self.part.bytes} bytes") from None
        except (http.client.HTTPException, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise _CutOffError(f"cut off after {self.part.bytes} bytes ({reason})") from None

    def _after_status(self, error: urllib.error.HTTPError) -> str:
        """What an answer without content means: the digest if the part file is the whole."""
        said = f"HTTP {error.code} {str(error.reason).partition(chr(10))[0]}"
        if error.code == 416 and self.part.bytes:
            whole = error.headers.get("Content-Range", "").removeprefix("bytes */")
            if whole == str(self.part.bytes):
                return self.part.sha256().hexdigest()
            self.part.discard()
            raise _CutOffError(said)
        raise _CutOffError(said) if error.code in _TRANSIENT else _RefusedError(said)

    def _receive(self, address: str, response: http.client.HTTPResponse) -> str:
        start, total = self._announced(response)
        _refuse_content(self.file, total, response)
        expected = total or self.file.expected_bytes
        _refuse_full_disk(self.part.path, expected - start)
        self.on_bytes(start, expected)
        digest = self.part.begin(start, address, _version(response))
        try:
            while chunk := response.read1(_CHUNK):
                digest.update(chunk)
                self.part.append(chunk)
                self.on_bytes(self.part.bytes, expected)
                if self.part.bytes > _most_bytes(self.file):
                    break
        finally:
            self.part.close()
        if self.part.bytes > _most_bytes(self.file):
            self.part.discard()
            raise _RefusedError(f"sends more than {_most_bytes(self.file)} bytes")
        if total is not None and self.part.bytes < total:
            raise _CutOffError(f"cut off after {self.part.bytes} of {total} bytes")
        return digest.hexdigest()

    def _announced(self, response: http.client.HTTPResponse) -> tuple[int, int | None]:
        """Where the content starts in the file, and the size of the whole if it is told."""
        length = response.headers.get("Content-Length", "")
        if response.status != 206:
            return 0, int(length) if length.isdigit() else None
        unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
        span, _, total = rest.partition("/")
        if unit != "bytes" or span.partition("-")[0] != str(self.part.bytes):
            asked = self.part.bytes
            self.part.discard()
            raise _CutOffError(
                f"asked for the bytes from {asked} on, announces {rest or 'nothing'}"
            )
        return self.part.bytes, int(total) if total.isdigit() else None


def _is_final(reason: object) -> bool:
    """Whether another try is in vain: no such host, or a certificate that is not trusted."""
    if isinstance(reason, socket.gaierror):
        return reason.errno != socket.EAI_AGAIN
    return isinstance(reason, ssl.SSLCertVerificationError)


def _refuse_content(
    file: RemoteFile, total: int | None, response: http.client.HTTPResponse
) -> None:
    kind = response.headers.get_content_type()
    if kind in ("text/html", "application/xhtml+xml"):
        raise _RefusedError(f"a web page ({kind}) in the place of the file")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise _RefusedError(f"content in the encoding {encoding}, which nobody asked for")
    if total is not None and file.bytes is not None and total != file.bytes:
        raise _RefusedError(f"announces {total} bytes, the catalogue says {file.bytes}")
    if total is not None and total > _most_bytes(file):
        raise _RefusedError(f"announces {total} bytes, at most {_most_bytes(file)} make sense")


def _most_bytes(file: RemoteFile) -> int:
    if file.bytes is not None:
        return file.bytes
    return _LARGEST_TEXT if file.name.endswith(".json") else _LARGEST


def _refuse_full_disk(path: Path, missing: int) -> None:
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        raise not_writable(path, error) from None
    if missing > free:
        raise OutputError(
            f"{path}: {missing} more bytes are needed, {free} are free",
            "make space, or set ELMO_HOME to a folder on another disk",
        )


def _version(response: http.client.HTTPResponse) -> str:
    """What names this version of the content; a weak tag can't be used to go on with it."""
    tag = response.headers.get("ETag", "")
    strong = tag if not tag.startswith("W/") else ""
    return strong or response.headers.get("Last-Modified", "")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the web, and never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise _RefusedError(f"sends on to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
