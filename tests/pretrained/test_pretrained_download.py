"""Downloads against a server that stalls, cuts off and lies."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from local_server import (
    LocalServer,
    answer,
    cut_off,
    ignore_range,
    redirect,
    stall,
    status,
)

from elmo_cli.errors import DownloadError, OutputError
from elmo_cli.pretrained.catalogue import RemoteFile
from elmo_cli.pretrained.download import Patience, download

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = Patience(timeout_s=0.3, tries=3, pause_s=0.001)


def remote(server: LocalServer, *names: str, bytes: int | None = None, sha256: str | None = None):
    names = names or ("w.hdf5",)
    return RemoteFile("w.hdf5", tuple(server.address(n) for n in names), bytes, 0, sha256)


def known(server: LocalServer, *names: str) -> RemoteFile:
    return remote(server, *names, bytes=len(CONTENT), sha256=SHA256)


@pytest.fixture
def target(tmp_path: Path, server: LocalServer) -> Path:
    server.files["w.hdf5"] = CONTENT
    return tmp_path / "w.hdf5"


def leave_part(target: Path, content: bytes, note: dict[str, str] | None = None) -> None:
    target.with_name("w.hdf5.part").write_bytes(content)
    if note:
        target.with_name("w.hdf5.part.json").write_text(json.dumps(note), encoding="utf-8")


def refused(file: RemoteFile, target: Path, **more: object) -> DownloadError:
    with pytest.raises(DownloadError) as caught:
        download(file, target, patience=QUICK, **more)
    assert not target.exists()
    assert str(target) in caught.value.hint
    return caught.value


def test_a_whole_file_arrives_and_leaves_nothing_beside(server: LocalServer, target: Path) -> None:
    """Without it nothing is ever fetched; progress must end at the size of the file."""
    seen: list[tuple[int, int]] = []
    digest = download(known(server), target, on_bytes=lambda *n: seen.append(n), patience=QUICK)
    assert digest == SHA256
    assert target.read_bytes() == CONTENT
    assert sorted(p.name for p in target.parent.iterdir()) == ["w.hdf5"]
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_goes_on_where_it_was_cut_off(server: LocalServer, target: Path) -> None:
    """A connection that breaks must not cost what has arrived."""
    server.acts["w.hdf5"] = [cut_off(100_000)]
    assert download(remote(server), target, patience=QUICK) == SHA256
    first, second = server.headers_seen("w.hdf5")
    assert "Range" not in first
    assert (second["Range"], second["If-Range"]) == ("bytes=100000-", '"1"')


def test_goes_on_in_a_later_process(server: LocalServer, target: Path) -> None:
    """The part file and its note are all that a killed run leaves."""
    leave_part(target, CONTENT[:5000], {"address": server.address("w.hdf5"), "version": '"1"'})
    assert download(remote(server), target, patience=QUICK) == SHA256
    assert [h.get("Range") for h in server.headers_seen("w.hdf5")] == ["bytes=5000-"]


def test_a_part_of_an_older_version_is_not_joined(server: LocalServer, target: Path) -> None:
    """Two halves of different files would make one that is neither."""
    leave_part(target, b"old" * 1000, {"address": server.address("w.hdf5"), "version": '"0"'})
    assert download(remote(server), target, patience=QUICK) == SHA256


def test_a_kill_between_two_versions_leaves_no_mixture(
    server: LocalServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the note of the new version the bytes of the old one would be gone on with."""

    def killed(self: Path, *args: object, **kwargs: object) -> int:
        written(self, *args, **kwargs)
        raise KeyboardInterrupt

    leave_part(target, b"old" * 1000, {"address": server.address("w.hdf5"), "version": '"0"'})
    written = Path.write_text
    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        download(remote(server), target, patience=QUICK)
    monkeypatch.setattr(Path, "write_text", written)
    assert download(remote(server), target, patience=QUICK) == SHA256


def test_a_part_that_nothing_vouches_for_is_not_joined(server: LocalServer, target: Path) -> None:
    """Without a note and without a known hash a wrong join would go unseen."""
    leave_part(target, b"old" * 1000)
    assert download(remote(server), target, patience=QUICK) == SHA256
    assert "Range" not in server.headers_seen("w.hdf5")[0]


def test_a_part_with_wrong_bytes_is_fetched_anew(server: LocalServer, target: Path) -> None:
    """A damaged part file must not make the download fail for ever."""
    leave_part(target, b"x" * 1000)
    assert download(known(server), target, patience=QUICK) == SHA256
    assert [h.get("Range") for h in server.headers_seen("w.hdf5")] == ["bytes=1000-", None]


def test_a_server_without_ranges_starts_anew(server: LocalServer, target: Path) -> None:
    """Its 200 is the whole file; appended to the part it would be wrong."""
    server.acts["w.hdf5"] = [cut_off(70_000), ignore_range]
    assert download(known(server), target, patience=QUICK) == SHA256


@pytest.mark.parametrize("rest", [b"", b"too much"])
def test_416_ends_or_restarts(server: LocalServer, target: Path, rest: bytes) -> None:
    """A part that is the whole file already, or longer than it, gets the answer 416."""
    leave_part(target, CONTENT + rest, {"address": server.address("w.hdf5"), "version": '"1"'})
    assert download(remote(server), target, patience=QUICK) == SHA256
    assert len(server.headers_seen("w.hdf5")) == (2 if rest else 1)


def test_a_whole_part_needs_no_request(server: LocalServer, target: Path) -> None:
    """Killed between the last byte and the rename."""
    leave_part(target, CONTENT)
    assert download(known(server), target, patience=QUICK) == SHA256
    assert server.seen == []


def test_silence_ends_in_another_try(server: LocalServer, target: Path) -> None:
    """A stalled connection would hang for ever without a limit on reading."""
    server.acts["w.hdf5"] = [stall(4000)]
    assert download(known(server), target, patience=QUICK) == SHA256


def test_silence_again_and_again_is_an_error(server: LocalServer, target: Path) -> None:
    server.acts["w.hdf5"] = [stall(0)] * 9
    error = refused(known(server), target)
    assert error.message == f"{server.address('w.hdf5')}: silent for 0.3 s after 0 bytes (3 tries)"


def test_cut_off_again_and_again_keeps_the_part(server: LocalServer, target: Path) -> None:
    """The next command must be able to go on."""
    server.acts["w.hdf5"] = [cut_off(3000)] * 9
    assert "cut off after 3000 of 256000 bytes (3 tries)" in refused(known(server), target).message
    assert target.with_name("w.hdf5.part").read_bytes() == CONTENT[:3000]


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_names_address_and_status(server: LocalServer, target: Path, code: int) -> None:
    """And is not asked again."""
    server.acts["w.hdf5"] = [status(code)]
    message = refused(known(server), target).message
    assert message.startswith(f"{server.address('w.hdf5')}: HTTP {code} ")
    assert len(server.seen) == 1


def test_a_busy_server_is_asked_again(server: LocalServer, target: Path) -> None:
    server.acts["w.hdf5"] = [status(503), status(429)]
    assert download(known(server), target, patience=QUICK) == SHA256


def test_the_next_address_is_taken(server: LocalServer, target: Path) -> None:
    """A dead mirror must not end it."""
    assert download(known(server, "gone", "w.hdf5"), target, patience=QUICK) == SHA256


def test_all_addresses_are_named_with_their_reasons(server: LocalServer, target: Path) -> None:
    server.acts["lie"] = [answer(b"", Content_Length=7)]
    message = refused(known(server, "gone", "lie"), target).message
    assert message == (
        f"{server.address('gone')}: HTTP 404 Not Found; "
        f"{server.address('lie')}: announces 7 bytes, the catalogue says 256000"
    )


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (answer(b"<html>", Content_Type="text/html; charset=utf-8"), "a web page (text/html)"),
        (answer(CONTENT[:-1]), "has 255999 bytes, the catalogue says 256000"),
        (answer(CONTENT + b"more"), "sends more than 256000 bytes"),
        (answer(b"x" * len(CONTENT)), f"the catalogue says {SHA256}"),
        (answer(b"x", Content_Encoding="gzip"), "content in the encoding gzip"),
    ],
)
def test_a_lie_is_never_kept(server: LocalServer, target: Path, act: object, said: str) -> None:
    """A file under its name is taken for the model by everything that comes after."""
    server.acts["w.hdf5"] = [act] * 3
    assert said in refused(known(server), target).message
    assert not target.with_name("w.hdf5.part").exists()


def test_a_wrong_rest_is_not_appended(server: LocalServer, target: Path) -> None:
    """A server that answers 206 with other bytes than those asked for."""

    def wrong_rest(handler: object, content: bytes) -> None:
        handler.begin(206, Content_Range="bytes 0-9/256000", Content_Length=10)
        handler.wfile.write(content[:10])

    server.acts["w.hdf5"] = [cut_off(4000), wrong_rest]
    assert download(known(server), target, patience=QUICK) == SHA256


def test_what_the_check_finds_is_an_error(server: LocalServer, target: Path) -> None:
    """Where no hash is published the structure of the file is all there is."""
    message = refused(remote(server), target, check=lambda path: "is not HDF5").message
    assert message.endswith("w.hdf5: is not HDF5")


def test_options_may_not_be_huge(server: LocalServer, target: Path) -> None:
    """A server could fill the disk through a file that is a few hundred bytes."""
    server.acts["w.hdf5"] = [answer(b"", Content_Length=1 << 30)]
    file = RemoteFile("options.json", (server.address("w.hdf5"),))
    assert "at most 1048576 make sense" in refused(file, target).message


def test_redirects_are_followed_within_the_web(server: LocalServer, target: Path) -> None:
    server.acts["start"] = [redirect(server.address("w.hdf5"))]
    assert download(known(server, "start"), target, patience=QUICK) == SHA256


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/w"])
def test_redirects_elsewhere_are_refused(server: LocalServer, target: Path, to: str) -> None:
    """A server could otherwise make the command read local files."""
    server.acts["w.hdf5"] = [redirect(to)]
    assert to in refused(known(server), target).message
    assert len(server.seen) == 1


def test_endless_redirects_end(server: LocalServer, target: Path) -> None:
    server.acts["w.hdf5"] = [redirect(server.address("w.hdf5"))] * 50
    assert "HTTP 302" in refused(known(server), target).message


def test_only_web_addresses(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    file = RemoteFile("w.hdf5", (secret.as_uri(),))
    assert "not an http or https address" in refused(file, tmp_path / "w.hdf5").message


def test_nobody_there(server: LocalServer, target: Path) -> None:
    """A server that is down is named, not shown as a traceback."""
    server.close()
    assert "can't be reached" in refused(known(server), target).message


def test_the_proxy_of_the_environment_is_used(
    server: LocalServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy there is no other way out."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    server.files["http://models.invalid/w.hdf5".lstrip("/")] = CONTENT
    file = RemoteFile("w.hdf5", ("http://models.invalid/w.hdf5",), len(CONTENT), 0, SHA256)
    assert download(file, target, patience=QUICK) == SHA256


def test_a_full_disk_is_told_before_the_first_byte(
    server: LocalServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(1, 1, 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match="256000 more bytes are needed, 10 are free"):
        download(known(server), target, patience=QUICK)


def test_a_folder_that_can_not_be_written_to(server: LocalServer, tmp_path: Path) -> None:
    """And the write error is not taken for a broken connection and tried again."""
    server.files["w.hdf5"] = CONTENT
    (tmp_path / "w.hdf5.part").mkdir()
    with pytest.raises(OutputError, match=r"w\.hdf5\.part: can't be written to"):
        download(known(server), tmp_path / "w.hdf5", patience=QUICK)
    assert len(server.seen) == 1
