"""download(): what a server does, and what becomes of the file."""

from __future__ import annotations

import hashlib
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from local_server import Answer, LocalServer, answer, cut, redirect, stall, status

from elmo_cli.errors import DownloadError, OutputError
from elmo_cli.pretrained.catalogue import RemoteFile
from elmo_cli.pretrained.download import AddressError, Redirects, download

CONTENT = bytes(range(256)) * 1000
N = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
WEB_PAGE = answer(b"<html>", Content_Length=6)


@pytest.fixture
def target(tmp_path: Path, server: LocalServer) -> Path:
    server.files["w"] = CONTENT
    return tmp_path / "weights.hdf5"


def remote(server: LocalServer, *names: str) -> RemoteFile:
    """The weight file under names of the server, "w" by default."""
    addresses = [server.address(name) for name in names or ("w",)]
    return RemoteFile(name="weights.hdf5", addresses=tuple(addresses), bytes=N, sha256=SHA256)


def fetch(file: RemoteFile, target: Path) -> list[int]:
    progress: list[int] = []
    download(file, target.parent, progress.append)
    return progress


def leave_part(server: LocalServer, target: Path, n_bytes: int) -> Path:
    """Return the partial file of a download that was cut off after N bytes."""
    server.answers["w"] = [cut(n_bytes), cut(0)]
    with pytest.raises(DownloadError, match="cut off"):
        fetch(remote(server), target)
    server.seen.clear()
    (part,) = target.parent.glob("*.part")
    assert part.read_bytes() == CONTENT[:n_bytes]
    return part


# Answers to the request for the rest of a file after its first 9 bytes.
RESUMED: dict[str, list[Answer]] = {
    "the rest": [],
    "all, for lack of ranges": [answer(CONTENT, Content_Length=N)],
    "a redirection": [redirect("w")],
}


@pytest.mark.parametrize("answers", RESUMED.values(), ids=RESUMED)
def test_a_download_that_was_cut_off_is_resumed(
    server: LocalServer, target: Path, answers: list[Answer]
) -> None:
    leave_part(server, target, 9)
    server.answers["w"] = list(answers)
    progress = fetch(remote(server), target)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert set(server.ranges) == {"9-"}
    assert progress[-1] == N


REFUSED: dict[str, tuple[Answer, str]] = {
    "404": (status(404), "HTTP 404 Not Found"),
    "busy": (status(503), "HTTP 503 Service Unavailable"),
    "stalled": (stall(0), "interrupted"),
    "a web page": (WEB_PAGE, f"has 6 bytes, expected {N}"),
    "more bytes": (answer(CONTENT + b"more"), f"has {N + 4} bytes, expected {N}"),
    "announces more": (answer(b"", Content_Length=N + 1), f"has {N + 1} bytes, expected {N}"),
    "wrong bytes": (answer(b"x" * N, Content_Length=N), f"SHA-256 .* expected {SHA256}"),
    "redirects to a file": (redirect("file:///etc/passwd"), "HTTP 302 .*file:///etc/passwd"),
    "redirects to ftp": (redirect("ftp://127.0.0.1/w"), "redirects to ftp"),
}


@pytest.mark.parametrize(("answer_of_server", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(
    server: LocalServer,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer_of_server: Answer,
    reason: str,
) -> None:
    """Each of the two tries gets the same answer."""
    if reason == "interrupted":
        monkeypatch.setattr("elmo_cli.pretrained.download.TIMEOUT_S", 0.2)
    server.answers["w"] = [answer_of_server, answer_of_server]
    check_refused(server, target, reason)


def test_endless_redirects_are_refused(server: LocalServer, target: Path) -> None:
    server.answers["w"] = [redirect("w")] * 100
    check_refused(server, target, "HTTP 302")


def check_refused(server: LocalServer, target: Path, reason: str) -> None:
    """No file gets the final name, and no wrong bytes are kept."""
    with pytest.raises(DownloadError, match=f"^{server.address('w')}: .*{reason}") as caught:
        fetch(remote(server), target)
    assert str(target) in caught.value.hint
    assert not any(path.stat().st_size for path in target.parent.iterdir())


def test_redirects_from_https_to_http_are_refused() -> None:
    request = urllib.request.Request("https://a.org/w")
    follow = Redirects().redirect_request
    assert follow(request, None, 302, "", {}, "https://b.org/w").full_url == "https://b.org/w"
    with pytest.raises(AddressError, match="redirects to http://b"):
        follow(request, None, 302, "", {}, "http://b.org/w")


@pytest.mark.parametrize("is_known", [True, False])
def test_only_what_a_hash_will_verify_is_resumed(
    server: LocalServer, target: Path, tiny: Path, is_known: bool
) -> None:
    """Otherwise the two parts could be those of different files."""
    leave_part(server, target, 5000)
    server.files["w"] = CONTENT if is_known else (tiny / "weights.hdf5").read_bytes()
    file = remote(server)
    fetch(file if is_known else replace(file, bytes=None, sha256=None), target)
    assert list(target.parent.iterdir()) == [target]
    assert target.read_bytes() == server.files["w"]
    assert server.ranges == (["5000-"] if is_known else [""])


@pytest.mark.parametrize("n_bytes", [9, N, N + 4])
def test_a_corrupt_part_is_not_used(server: LocalServer, target: Path, n_bytes: int) -> None:
    """It is removed, and the second try starts over; one that is too long is not resumed."""
    leave_part(server, target, 9).write_bytes(b"x" * n_bytes)
    fetch(remote(server), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges[-1] == ""


def test_addresses_are_tried_in_turn(server: LocalServer, target: Path) -> None:
    """The error gives a reason for each. Each resumes the partial file that the previous one left,
    in this command or in an earlier one."""
    server.answers["page"] = [WEB_PAGE] * 2
    with pytest.raises(DownloadError) as caught:
        fetch(remote(server, "gone", "page"), target)
    gone, page = caught.value.message.split("; ")
    assert gone.startswith(f"{server.address('gone')}: ")
    assert page.startswith(f"{server.address('page')}: ")
    leave_part(server, target, 5000)
    server.answers["page"] = [WEB_PAGE]
    fetch(remote(server, "gone", "page", "w"), target)
    assert server.ranges == ["5000-"] * 3
    target.unlink()
    server.seen.clear()
    server.answers["w"] = [cut(100)]
    fetch(remote(server), target)
    assert server.ranges == ["", "100-"]


@pytest.mark.parametrize("length", ["\u00b2", "9" * 5000, "-1", ""])
def test_a_length_that_is_no_number_is_an_unknown_one(
    server: LocalServer, target: Path, length: str
) -> None:
    server.answers["w"] = [answer(CONTENT, Content_Length=length)]
    fetch(remote(server), target)
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_not_shorter_than_the_file_is_not_kept(
    server: LocalServer, target: Path
) -> None:
    """Of a file whose size is unknown the server refuses the rest, which is empty."""
    leave_part(server, target, 9).write_bytes(CONTENT)
    fetch(replace(remote(server), bytes=None), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [f"{N}-", ""]


@pytest.mark.parametrize("too_much", [answer(b"", Content_Length=1 << 30), answer(bytes(4 << 20))])
def test_the_size_of_options_is_limited(
    server: LocalServer, target: Path, too_much: Answer
) -> None:
    """A server could fill the disk."""
    server.answers["w"] = [too_much] * 2
    progress = [0]
    file = RemoteFile("options.json", (server.address("w"),))
    with pytest.raises(DownloadError, match="expected at most 1048576"):
        download(file, target.parent, progress.append)
    assert progress[-1] <= (1 << 20) + (1 << 16)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/w", "http://models.invalid/w"])
def test_no_network(target: Path, address: str) -> None:
    with pytest.raises(DownloadError, match=f"{address}: cannot be reached"):
        fetch(RemoteFile("w", (address,)), target)


def test_the_proxy_of_the_environment_is_used(
    server: LocalServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.address(""))
    server.files["http://models.invalid/w"] = CONTENT
    file = replace(remote(server), addresses=("http://models.invalid/w",))
    fetch(file, target)
    assert target.read_bytes() == CONTENT


def test_an_error_of_the_disk_is_not_one_of_the_network(server: LocalServer, target: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written") as caught:
        fetch(remote(server), target.parent / "missing" / "weights.hdf5")
    assert "ELMO_HOME" in caught.value.hint
    assert len(server.seen) == 1
