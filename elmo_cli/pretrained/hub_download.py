"""Download a model of the Hugging Face hub into the cache, all files from one commit.

A new revision is downloaded next to the one on this machine, which it replaces when it is complete
and verified. A killed download leaves a hidden folder; the next one resumes what is in there if the
server states the commit, and otherwise starts over.
"""

from __future__ import annotations

import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from elmo_cli.errors import DownloadError, ElmoError, ModelError, UsageError
from elmo_cli.file_locks import abandoned_lock
from elmo_cli.messages import url_without_secrets
from elmo_cli.pretrained.catalogue import RemoteFile, lock_path, locked, writing
from elmo_cli.pretrained.download import (
    AddressError,
    Redirects,
    download,
    open_address,
    stated_bytes,
)
from elmo_cli.pretrained.hub import (
    OPTIONAL_FILES,
    REQUIRED_FILES,
    HubModel,
    HubRecord,
    hub_files,
)
from elmo_cli.pretrained.model_files import ModelFiles, check_parts, find_files
from elmo_cli.regular_files import sha256_of_file

_HUB = "https://huggingface.co"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_SUCH_FILE = 404
_REFUSED = (401, 403, _NO_SUCH_FILE)  # a private or missing repository, revision or file


def pull_from_hub(
    model: HubModel,
    *,
    overwrite: bool = False,
    on_bytes: Callable[[int, int], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> ModelFiles:
    """Download a model of the hub, unless its files are on this machine and not corrupt.

    The server is that of $HF_ENDPOINT, by default huggingface.co.

    Args:
        overwrite: download the model again; what its revision means now replaces what it meant.
        on_bytes: called with the bytes of all files received so far and in total (0 if unknown).
        on_wait: called once if another process is downloading from the same repository.
    Raises:
        DownloadError, OutputError: the server does not have the model, or it is not valid;
            $ELMO_HOME cannot be written to.
        ModelError: ELMO_OFFLINE is set and there is something to download.
        UsageError: $HF_ENDPOINT is not an address.
    """
    if not overwrite and _is_intact(model):
        with suppress(OSError), abandoned_lock(lock_path(model.repository_folder)) as is_abandoned:
            if is_abandoned:
                _remove_leftovers(model)
        return hub_files(model)
    if os.environ.get("ELMO_OFFLINE"):
        problem = f"ELMO_OFFLINE is set, so the model `{model}` is not downloaded"
        raise ModelError(problem, "unset ELMO_OFFLINE, or give a folder with its files")
    with locked(model.repository_folder, on_wait):
        if overwrite or not _is_intact(model):  # another process may have downloaded it
            _download_revision(model, on_bytes)
    return hub_files(model)


def _is_intact(model: HubModel) -> bool:
    """Whether all files that the record of a model states are there and have their SHA-256."""
    try:
        record = HubRecord.read(model)
    except ModelError:
        return False
    if record is None:
        return False
    return not _incomplete_files(record.files, model.folder)


def _incomplete_files(files: Iterable[RemoteFile], folder: Path) -> list[RemoteFile]:
    """The files that are missing, or have another size or SHA-256."""
    incomplete = []
    for file in files:
        path = folder / file.name
        if not path.is_file() or file.problem(path):
            incomplete.append(file)
    return incomplete


@dataclass(frozen=True)
class _Snapshot:
    """The files of a revision on the server.

    Attributes:
        commit: what a branch or tag means now; None if the server does not state it.
    """

    commit: str | None
    files: tuple[RemoteFile, ...]


def _download_revision(model: HubModel, on_bytes: Callable[[int, int], None] | None) -> None:
    """Download and verify all files of a model, then replace its folder."""
    snapshot = _snapshot(model)
    unfinished = _unfinished_folder(model, snapshot.commit or "unknown")
    with writing(unfinished):
        if snapshot.commit is None:  # the files of another commit could be in there
            shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(exist_ok=True)
    to_fetch = _incomplete_files(snapshot.files, unfinished)
    total = sum(file.bytes or 0 for file in to_fetch)  # of small files, the hub states no size
    n_complete = 0  # bytes of complete files

    def on_file_bytes(n_bytes: int) -> None:
        if on_bytes is not None:
            on_bytes(n_complete + n_bytes, total)

    for file in to_fetch:
        try:
            download(file, unfinished, on_file_bytes)
        except DownloadError as error:
            hint = "run it again; set HTTPS_PROXY if you are behind a proxy"
            raise DownloadError(error.problem, hint) from None
        n_complete += (unfinished / file.name).stat().st_size
    _verify(model, unfinished)
    files = [_recorded(file, unfinished / file.name) for file in snapshot.files]
    HubRecord(snapshot.commit, tuple(files)).write(model, unfinished)
    with writing(model.folder):
        _replace_folder(unfinished, model)
    _remove_leftovers(model)


def _recorded(file: RemoteFile, path: Path) -> RemoteFile:
    """A downloaded file with its size and SHA-256, as hub.json records them."""
    return replace(file, bytes=path.stat().st_size, sha256=sha256_of_file(path))


def _verify(model: HubModel, folder: Path) -> None:
    """Raise a DownloadError, and remove the files, unless they are a model and fit each other."""
    try:
        files = find_files(folder)
        files.read_options()
        files.family.check(files)
        parts = {
            "softmax": files.softmax,
            "vocabulary": files.vocabulary,
            "state": files.warm_state,
        }
        check_parts(files, parts)
    except ElmoError as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = error.problem if not error.where else f"{Path(error.where).name}: {error.problem}"
        problem = f"the files on the server are not a valid model ({reason})"
        raise DownloadError(problem, "tell the owner of the repository", where=str(model)) from None


def _unfinished_folder(model: HubModel, commit: str) -> Path:
    """The hidden folder that a revision is downloaded to."""
    return model.repository_folder / f".{model.revision}@{commit}"


def _replace_folder(new: Path, model: HubModel) -> None:
    """Give a complete folder its final name. A process that is killed here leaves both folders."""
    old = _unfinished_folder(model, "old")
    shutil.rmtree(old, ignore_errors=True)
    if model.folder.exists():
        os.rename(model.folder, old)
    os.rename(new, model.folder)


def _remove_leftovers(model: HubModel) -> None:
    """Remove what this and earlier downloads of a revision have left."""
    for folder in model.repository_folder.glob(f".{model.revision}@*"):
        shutil.rmtree(folder, ignore_errors=True)


def _snapshot(model: HubModel) -> _Snapshot:
    """Ask the server for the files of a revision; or DownloadError.

    The first answer states the commit; all other files are those of this commit.
    """
    revision = model.revision
    commit = revision if _COMMIT.fullmatch(revision) else None
    files = []
    for name in (*REQUIRED_FILES, *OPTIONAL_FILES):
        address = f"{_endpoint()}/{model.repository}/resolve/{revision}/{name}"
        headers = _headers(address, model, is_required=name in REQUIRED_FILES)
        if headers is None:
            continue
        stated_commit = headers.get("X-Repo-Commit", "")
        if commit is None and _COMMIT.fullmatch(stated_commit):
            commit = stated_commit
            revision = commit
            address = f"{_endpoint()}/{model.repository}/resolve/{revision}/{name}"
        files.append(_remote_file(name, address, headers))
    return _Snapshot(commit, tuple(files))


def _endpoint() -> str:
    """The address of the hub, which the programs of the hub take from the same variable."""
    address = os.environ.get("HF_ENDPOINT") or _HUB
    if not _is_http(address):
        hint = f"unset it for {_HUB}, or set it to the address of a mirror"
        shown = url_without_secrets(address)
        raise UsageError(f"{shown} is not an http or https address", hint, where="$HF_ENDPOINT")
    return address.rstrip("/")


def _is_http(address: str) -> bool:
    """Whether an address has the form of an http or https address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as `http://[`, which begins an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _headers(address: str, model: HubModel, *, is_required: bool) -> Message | None:
    """The headers that the hub sends with a file; None if it does not have an optional one."""
    error: AddressError | None = None
    for _ in range(2):  # as `download` tries each address
        try:
            return _request_headers(address)
        except AddressError as caught:
            error = caught
            if caught.status in _REFUSED:
                break
    assert error is not None
    if error.status == _NO_SUCH_FILE and not is_required:
        return None
    problem = f"{address}: {error}"
    if error.status in _REFUSED:
        hint = (
            f"check the name; a model has {' and '.join(REQUIRED_FILES)} at the top of its "
            f"repository; `hf download {model.repository} --local-dir DIR` reads private ones"
        )
        raise DownloadError(problem, hint)
    raise DownloadError(problem, "run it again; set HTTPS_PROXY if you are behind a proxy")


def _request_headers(address: str) -> Message:
    """The headers of a file; those of the hub, if it redirects to where the content is stored."""
    redirects = _RedirectsOfOneHost()
    headers: Message
    try:
        with open_address(address, redirects=redirects) as response:
            headers = response.headers
    except _RedirectsElsewhereError as elsewhere:
        headers = elsewhere.headers
    for name, text in redirects.stated.items():
        if name not in headers:
            headers[name] = text
    return headers


def _remote_file(name: str, address: str, headers: Message) -> RemoteFile:
    """A file with the size and the SHA-256 that the hub states of large files."""
    sha256 = headers.get("X-Linked-Etag", "").strip('"')
    return RemoteFile(
        name=name,
        addresses=(address,),
        bytes=stated_bytes(headers.get("X-Linked-Size", "")),
        sha256=sha256 if _SHA256.fullmatch(sha256) else None,
    )


class _RedirectsElsewhereError(Exception):
    """The hub redirects to another host; its own answer has these headers."""

    def __init__(self, headers: Message) -> None:
        super().__init__()
        self.headers = headers


class _RedirectsOfOneHost(Redirects):
    """Follow redirects on the same host, such as those of a repository that was renamed.

    Attributes:
        stated: the headers of the answers that were redirected.
    """

    def __init__(self) -> None:
        self.stated: dict[str, str] = {}

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            fp.close()
            raise _RedirectsElsewhereError(headers)
        self.stated.update(headers.items())
        return super().redirect_request(req, fp, code, msg, headers, newurl)
