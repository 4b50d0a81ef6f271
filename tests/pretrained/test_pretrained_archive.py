"""Archives: unpacked once, and not at all if anything in them is unsafe."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import stat
import subprocess
import sys
import tarfile
import threading
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_model import write_tiny_model

from elmo_cli.errors import ElmoError, ModelError, OutputError
from elmo_cli.pretrained import archive
from elmo_cli.pretrained.load import load, locate
from elmo_cli.train.language_model import load_language_model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = write_tiny_model(tmp_path / "source", weights="model.hdf5")
    (folder / "meta.json").write_text("{}")
    return folder


def make_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as file:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def contents(folder: Path, prefix: str = "") -> dict[str, bytes]:
    return {prefix + path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("prefix", ["", "144/"])
@pytest.mark.parametrize("name", ["144.zip", "144.tar.gz", "144.tar.xz", "download"])
def test_zip_and_tar_are_models(tmp_path: Path, source: Path, name: str, prefix: str) -> None:
    """The form of the NLPL repository, in a folder of its own or not, under any name."""
    members = {**contents(source, prefix), "__MACOSX/x.hdf5": b"", ".DS_Store": b""}
    path = tmp_path / name
    if "tar" in name:
        make_tar(path, members, "w:gz" if name.endswith("gz") else "w:xz")
    else:
        make_zip(path, members)
    bilm = load(path)
    assert bilm.name == name.split(".")[0]
    assert bilm.sha256 == locate(source).sha256


def test_unpacked_once(tmp_path: Path, source: Path, home: Path) -> None:
    """By the hash of the archive, so that a renamed copy is the same model."""
    path = make_zip(tmp_path / "m.zip", contents(source))
    first = locate(path).weights
    changed = first.stat().st_mtime_ns
    path = path.rename(tmp_path / "other.zip")
    assert locate(path).weights == first
    assert first.stat().st_mtime_ns == changed
    assert first.is_relative_to(home / "archives")


def test_an_unfinished_unpacking_is_done_again(tmp_path: Path, source: Path) -> None:
    """Killed half way: what was written must not pass for the model."""
    path = make_zip(tmp_path / "m.zip", contents(source))
    folder = locate(path).weights.parent
    part = folder.rename(folder.with_name(folder.name + ".part"))
    (part / "options.json").unlink()
    assert load(path).options.projection_dim == 4


def test_what_kills_have_left_is_removed(tmp_path: Path, source: Path, home: Path) -> None:
    """Each takes as much of the disk as a model; what another process is at stays."""
    for name in ("left", "at-work"):
        (home / "archives" / f"{name}.part").mkdir(parents=True)
    os.utime(home / "archives" / "left.part", (1, 1))
    locate(make_zip(tmp_path / "m.zip", contents(source)))
    assert [part.name for part in home.rglob("*.part")] == ["at-work.part"]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_two_processes_without_locks(
    tmp_path: Path, source: Path, home: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Disks of clusters have none; the jobs of an array unpack one model all at once."""
    path = make_zip(tmp_path / "m.zip", {**contents(source), "more": bytes(8 << 20)})
    both = threading.Barrier(2, timeout=60)

    def flock(descriptor: int, how: int) -> None:
        both.wait()
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(locate, [path, path]))
    assert found[0] == found[1]
    assert contents(found[0].weights.parent)["model.hdf5"] == contents(source)["model.hdf5"]
    assert not list(home.rglob("*.part"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.hdf5", b"x", r"m\.zip/model\.hdf5: not an HDF5 file"),
        ("options.json", b"{}", r"m\.zip/options\.json: char_cnn is missing"),
        ("options.json", None, r"m\.zip/model\.hdf5: no options\.json beside it"),
        ("vocab.txt", b"", r"m\.zip: this model has no softmax"),
    ],
)
def test_errors_name_the_archive(
    tmp_path: Path, source: Path, name: str, content: bytes | None, said: str
) -> None:
    """What is in the folder of models under a hash nobody has put there, nor can mend."""
    members = contents(source, "144/") | {f"144/{name}": content}
    path = make_zip(tmp_path / "m.zip", {n: c for n, c in members.items() if c is not None})
    read = load_language_model if name == "vocab.txt" else load
    with pytest.raises(ElmoError, match=f"^{re.escape(str(tmp_path))}/{said}") as caught:
        read(path)
    assert "archives" not in str(caught.value)


def link(path: Path) -> None:
    with tarfile.open(path, "w:gz") as file:
        member = tarfile.TarInfo("weights.hdf5")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(member)


def zip_link(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        member = zipfile.ZipInfo("weights.hdf5")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(member, "/etc/passwd")


@pytest.mark.parametrize(
    "name", ["../weights.hdf5", "/tmp/weights.hdf5", "a/../../w.hdf5", "C:\\w", "."]
)
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_member_that_leaves_the_folder(
    tmp_path: Path, home: Path, name: str, make: object
) -> None:
    """Otherwise an archive writes wherever it likes."""
    make(tmp_path / "m.zip", {"options.json": b"{}", name: b"x"})
    with pytest.raises(ModelError, match="leads out of the folder"):
        locate(tmp_path / "m.zip")
    assert not list(home.rglob("*.hdf5"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("weights.hdf5/a", "'weights.hdf5' is a file and a folder"),
        ("x" * 300, "too long a name"),
        ("", "'' leads out of the folder"),
    ],
)
def test_members_that_no_folder_can_hold(tmp_path: Path, home: Path, name: str, said: str) -> None:
    """Without it $ELMO_HOME is blamed, and the user looks for a fault of the disk."""
    path = make_tar(tmp_path / "m.tar.gz", {"weights.hdf5": b"x", name: b"y"})
    with pytest.raises(ModelError, match=said):
        locate(path)
    assert not list(home.rglob("*.part"))


@pytest.mark.parametrize("make", [link, zip_link])
def test_a_link(tmp_path: Path, make: object) -> None:
    make(tmp_path / "m.zip")
    with pytest.raises(ModelError, match=r"'weights\.hdf5' is a link or a device"):
        locate(tmp_path / "m.zip")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_an_archive_that_grows_without_measure(tmp_path: Path, make: object) -> None:
    """A few kilobytes that fill the disk."""
    path = make(tmp_path / "m.zip", {"weights.hdf5": bytes(70 << 20)})
    with pytest.raises(ModelError, match=r"unpacks to 73400320 bytes or more, at most 67108864"):
        locate(path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("name", ["m.tar.gz", "m"])
def test_a_name_that_fills_the_memory(tmp_path: Path, home: Path, kind: bytes, name: str) -> None:
    """tarfile takes a long name in one piece, before anybody can ask how long it is."""
    with tarfile.open(tmp_path / name, "w:gz", compresslevel=1) as file:
        member = tarfile.TarInfo("weights.hdf5")
        member.type, member.size = kind, 64 << 20
        file.addfile(member, io.BytesIO(bytes(member.size)))
    # In a process of its own: what this one has freed would be there for the name.
    told = subprocess.run(
        [sys.executable, "-c", _LOCATE, tmp_path / name], capture_output=True, text=True, check=True
    )
    assert "more memory than 16 times its size" in told.stdout
    assert not list(home.rglob("*.part"))


_LOCATE = """
import sys
from elmo_cli import isolate
from elmo_cli.errors import ModelError
from elmo_cli.pretrained.load import locate
isolate.MIN_MEMORY = 16 << 20
try:
    locate(sys.argv[1])
except ModelError as error:
    print(error.message)
"""


def test_too_many_members(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "m.zip", {f"{i}.hdf5": b"" for i in range(1001)})
    with pytest.raises(ModelError, match="more than 1000 members"):
        locate(path)


def test_a_member_that_occurs_twice(tmp_path: Path, source: Path) -> None:
    """Readers take one of the two, and not all the same one."""
    path = make_zip(tmp_path / "m.zip", contents(source))
    with zipfile.ZipFile(path, "a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own of the second name
        file.writestr("./options.json", b"{}")
    with pytest.raises(ModelError, match=r"options\.json' occurs twice"):
        locate(path)


def test_a_header_that_states_too_little(tmp_path: Path, home: Path) -> None:
    """The limit on sizes must not rest on what the archive says of itself."""
    path = make_zip(tmp_path / "m.zip", {"weights.hdf5": b"x" * 5000}, zipfile.ZIP_STORED)
    content = path.read_bytes().replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a whole zip or tar file"):
        locate(path)
    assert all(p.stat().st_size <= 10 for p in home.rglob("weights.hdf5"))


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_an_archive_that_was_cut_off(
    tmp_path: Path, source: Path, home: Path, make: object, part: float
) -> None:
    """The usual end of a download of 300 MB."""
    path = make(tmp_path / ("m.zip" if make is make_zip else "m.tar.gz"), contents(source))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ModelError, match="not a whole zip or tar file") as caught:
        locate(path)
    assert "cut off" in caught.value.hint
    assert not [p for p in home.rglob("archives/*") if p.is_dir() and p.suffix != ".part"]


def test_an_encrypted_zip(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "m.zip", {"weights.hdf5": b"x"})
    content = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"weights\.hdf5 is encrypted"):
        locate(path)


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_foreign_models_are_named_before_they_are_unpacked(
    tmp_path: Path, home: Path, make: object
) -> None:
    """NLPL's numbers 136-179 are ELMoForManyLangs; AllenNLP's task models are tar.gz."""
    foreign = {
        "an ELMoForManyLangs model": ["config.json", "word.dic", "encoder.pkl"],
        "an AllenNLP archive": ["config.json", "weights.th", "vocabulary/tokens.txt"],
        "a PyTorch file": ["archive/data.pkl", "archive/version"],
        "a transformer": ["config.json", "model.safetensors"],
        "no weight file in it \\(options.json, vocab.txt\\)": ["options.json", "vocab.txt"],
        "no weight file in it \\(it is empty\\)": [],
    }
    for i, (said, names) in enumerate(foreign.items()):
        path = make(tmp_path / f"{i}.zip", dict.fromkeys(names, b"{}"))
        with pytest.raises(ModelError, match=said):
            locate(path)
    assert not list(home.rglob("*.json"))


def test_a_home_that_can_not_be_written_to(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or read-only disk is not the archive's fault."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="can't be written to"):
        locate(make_zip(tmp_path / "m.zip", contents(source)))


def test_no_space_left_while_unpacking(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full stands in for the disk."""
    path = make_zip(tmp_path / "m.zip", contents(source))
    written = archive._write

    def to_full(path: Path, member: object, target: Path) -> None:
        written(path, member, Path("/dev/full"))

    monkeypatch.setattr(archive, "_write", to_full)
    with pytest.raises(OutputError, match="No space left on device"):
        locate(path)
