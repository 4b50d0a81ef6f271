"""download(): what a server does, and what becomes of the file."""

from __future__ import annotations

import hashlib
import urllib.request
from pathlib import Path

import pytest
from local_server import Act, LocalServer, answer, cut, redirect, status, whole

from elmo_cli.errors import DownloadError, OutputError
from elmo_cli.pretrained.catalogue import RemoteFile
from elmo_cli.pretrained.download import RetryPolicy, _PermanentError, _Redirects, download

CONTENT = bytes(range(256)) * 1000
N = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FAST = RetryPolicy(timeout_s=0.2, attempts=3, backoff_s=0.001)
SPAN = f"bytes 9-{N - 1}/{N}"


@pytest.fixture
def target(tmp_path: Path, server: LocalServer) -> Path:
    server.files["w"] = CONTENT
    return tmp_path / "weights.hdf5"


def remote(server: LocalServer, *names: str, is_known: bool = True) -> RemoteFile:
    facts = {"bytes": N, "sha256": SHA256} if is_known else {}
    return RemoteFile("weights.hdf5", tuple(map(server.address, names or ("w",))), **facts)


def fetch(file: RemoteFile, target: Path, problem: str = "", **more: object) -> None:
    download(file, target, lambda path: problem, retry=FAST, **more)


def parts(target: Path) -> list[Path]:
    return sorted(target.parent.glob("*.part"))


def leave_part(server: LocalServer, target: Path, n_bytes: int, *, is_known: bool) -> Path:
    """The partial file of a download that was cut off N times, as a killed process leaves it."""
    server.acts["w"] = [cut(n_bytes)] * 9
    with pytest.raises(DownloadError, match=f"cut off after {n_bytes} of {N} bytes"):
        fetch(remote(server, is_known=is_known), target)
    server.acts.clear()
    server.seen.clear()
    (part,) = parts(target)
    assert part.read_bytes() == CONTENT[:n_bytes]
    return part


# Answers before the usual one, and the ranges that are asked for.
RECOVERED: dict[str, tuple[list[Act], list[str]]] = {
    "a good server": ([], [""]),
    "cut off": ([cut(100_000)], ["", "100000-"]),
    "cut off twice": ([cut(100_000), cut(5)], ["", "100000-", "5-"]),
    "stalled": ([cut(4000, stall=True)], ["", "4000-"]),
    "stalled at once": ([cut(0, stall=True)], ["", ""]),
    "busy": ([status(503), status(429)], ["", "", ""]),
    "ignores the range": ([cut(70_000), whole], ["", "70000-"]),
    "416": ([cut(9), status(416)], ["", "9-", ""]),
    "sends another range": (
        [cut(9), answer(CONTENT[:9], 206, Content_Range=f"bytes 0-8/{N}", ETag='"1"')],
        ["", "9-", ""],
    ),
    "sends the rest of other bytes": (
        [cut(9), answer(b"x" * (N - 9), 206, Content_Range=SPAN, ETag='"1"')],
        ["", "9-", ""],
    ),
    "redirects": ([redirect("w")], ["", ""]),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_recovered(server: LocalServer, target: Path, name: str) -> None:
    acts, ranges = RECOVERED[name]
    server.acts["w"] = list(acts)
    progress: list[tuple[int, int]] = []
    fetch(remote(server), target, on_bytes=lambda *n: progress.append(n))
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert server.ranges == ranges
    assert progress[-1] == (N, N)


WEB_PAGE = answer(b"<html>", Content_Type="text/html; charset=utf-8")
REFUSED: dict[str, tuple[list[Act], str]] = {
    "403": ([status(403)], "HTTP 403 Forbidden"),
    "404": ([status(404)], "HTTP 404 Not Found"),
    "busy for ever": ([status(503)] * 9, r"HTTP 503 .*\(3 attempts\)"),
    "stalls for ever": ([cut(0, stall=True)] * 9, r"interrupted after 0 bytes .*\(3 attempts\)"),
    "a web page": ([WEB_PAGE], r"a web page \(text/html\)"),
    "one byte less": ([answer(CONTENT[:-1])], f"has {N - 1} bytes, expected {N}"),
    "more bytes": ([answer(CONTENT + b"more")], f"has {N + 4} bytes, expected {N}"),
    "announces more": ([answer(b"", Content_Length=N + 1)], f"announces {N + 1} bytes"),
    "wrong bytes": ([answer(b"x" * N, Content_Length=N)], f"SHA-256 .* expected {SHA256}"),
    "redirects to a file": ([redirect("file:///etc/passwd")], "HTTP 302 .*file:///etc/passwd"),
    "redirects to ftp": ([redirect("ftp://127.0.0.1/w")], "redirects to ftp"),
    "redirects for ever": ([redirect("w")] * 50, "HTTP 302"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server: LocalServer, target: Path, name: str) -> None:
    """Nothing gets the final name, and no wrong bytes are kept."""
    acts, said = REFUSED[name]
    server.acts["w"] = list(acts)
    with pytest.raises(DownloadError, match=f"^{server.address('w')}: .*{said}") as caught:
        fetch(remote(server), target)
    assert str(target) in caught.value.hint
    assert not target.exists()
    assert all(not part.stat().st_size for part in parts(target))
    if "attempts" not in said and "302" not in said:
        assert len(server.seen) == 1


def test_redirects_from_https_to_http_are_refused() -> None:
    request = urllib.request.Request("https://example.org/w")
    for scheme in ("https", "http"):
        args = (request, None, 302, "Found", {}, f"{scheme}://example.org/v")
        if scheme == "https":
            assert _Redirects().redirect_request(*args).full_url == args[-1]
        else:
            with pytest.raises(_PermanentError, match="redirects to http://example"):
                _Redirects().redirect_request(*args)


# The version in the second run, whether the SHA-256 is known, and whether the part is resumed.
LATER = [
    ('"1"', True, True),
    ('"1"', False, True),
    ('"2"', True, True),  # the hash decides
    ('"2"', False, False),
    ('W/"1"', False, False),
    (None, True, True),
    (None, False, False),
]


@pytest.mark.parametrize(("version", "is_known", "is_resumed"), LATER)
def test_a_later_process_resumes_the_same_content_only(
    server: LocalServer, target: Path, version: str | None, is_known: bool, is_resumed: bool
) -> None:
    leave_part(server, target, 5000, is_known=is_known)
    server.version = version
    if not is_resumed:
        server.files["w"] = CONTENT[::-1]
    fetch(remote(server, is_known=is_known), target)
    assert target.read_bytes() == server.files["w"]
    assert server.ranges == (["5000-"] if is_resumed else ["5000-", ""])
    assert parts(target) == []


@pytest.mark.parametrize("version", ["", "W/"])
def test_parts_without_a_version_are_not_joined(
    server: LocalServer, target: Path, version: str
) -> None:
    server.version = version and f'{version}"1"'
    server.acts["w"] = [cut(5000)]
    fetch(remote(server, is_known=False), target)
    assert server.ranges == ["", "5000-", ""]


@pytest.mark.parametrize("content", [b"x" * 1000, CONTENT, CONTENT + b"more"])
def test_a_corrupt_part_does_not_block_the_download(
    server: LocalServer, target: Path, content: bytes
) -> None:
    leave_part(server, target, 9, is_known=True).write_bytes(content)
    fetch(remote(server), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [f"{len(content)}-", ""]


def test_mirrors_are_tried_in_turn_and_named(server: LocalServer, target: Path) -> None:
    server.acts["page"] = [WEB_PAGE]
    with pytest.raises(DownloadError) as caught:
        fetch(remote(server, "gone", "page"), target)
    reasons = caught.value.message.split("; ")
    assert [one.split(": ")[0] for one in reasons] == [*map(server.address, ("gone", "page"))]
    fetch(remote(server, "gone", "w"), target)
    assert target.read_bytes() == CONTENT


def test_a_mirror_that_refuses_keeps_the_part_of_another(server: LocalServer, target: Path) -> None:
    leave_part(server, target, 5000, is_known=False)
    server.acts["page"] = [WEB_PAGE]
    fetch(remote(server, "gone", "page", "w", is_known=False), target)
    assert server.ranges == ["5000-"] * 3


def test_the_content_is_checked(server: LocalServer, target: Path) -> None:
    with pytest.raises(DownloadError, match="w: is not HDF5"):
        fetch(remote(server, is_known=False), target, "is not HDF5")
    assert list(target.parent.iterdir()) == []


def test_the_size_of_options_is_limited(server: LocalServer, target: Path) -> None:
    """A server could fill the disk."""
    file = RemoteFile("options.json", (server.address("w"),))
    for act in (answer(b"", Content_Length=1 << 30), answer(bytes((1 << 20) + 70_000))):
        server.acts["w"] = [act]
        with pytest.raises(DownloadError, match="expected at most 1048576"):
            fetch(file, target)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/w", "http://models.invalid/w"])
def test_no_network(target: Path, address: str) -> None:
    with pytest.raises(DownloadError, match=f"{address}: cannot be reached") as caught:
        fetch(RemoteFile("w", (address,)), target)
    assert ("attempts" in caught.value.message) == ("127" in address)


def test_the_proxy_of_the_environment_is_used(
    server: LocalServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.address(""))
    server.files["http://models.invalid/w"] = CONTENT
    fetch(RemoteFile("w", ("http://models.invalid/w",), N, 0, SHA256), target)
    assert target.read_bytes() == CONTENT


def test_progress_resets_the_attempts(server: LocalServer, target: Path) -> None:
    """A large file may need more interruptions than attempts."""
    server.files["w"] = content = bytes(9 << 20)

    def one_and_a_half(handler, content):
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        code = 206 if start else 200
        size = len(content) - start
        handler.begin(code, Content_Length=size, Content_Range=span, ETag='"1"')
        handler.wfile.write(content[start : start + (3 << 19)])

    server.acts["w"] = [one_and_a_half] * 5
    fetch(remote(server, is_known=False), target)
    assert target.read_bytes() == content
    assert len(server.seen) == 6


def test_an_error_of_the_disk_is_not_one_of_the_network(
    server: LocalServer, tmp_path: Path
) -> None:
    server.files["w"] = CONTENT
    with pytest.raises(OutputError, match="cannot be written") as caught:
        fetch(remote(server), tmp_path / "missing" / "weights.hdf5")
    assert "ELMO_HOME" in caught.value.hint
    assert len(server.seen) == 1
