"""Archives: what is extracted, and what is refused."""

from __future__ import annotations

import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from disks import disk_of

from elmo_cli import zip_files
from elmo_cli.errors import ElmoError, ModelError, OutputError
from elmo_cli.pretrained.archive import _new_name, archive_stem, is_archive
from elmo_cli.pretrained.load import load, locate

LINK = object()
Members = list[tuple[str, object]]
OK: Members = [("options.json", b"{}"), ("weights.hdf5", b"x")]
BIG: Members = [("weights.hdf5", b"x" * 5000)]


def make(path: Path, members: Members, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a zip file; LINK stands for a symbolic link."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as file:
        warnings.simplefilter("ignore")  # of a name that occurs twice
        for name, content in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16 if content is LINK else 0
            file.writestr(entry, b"/etc/hosts" if content is LINK else content, method)
    return path


@pytest.fixture
def contents(tiny: Path) -> dict[str, bytes]:
    return {name: (tiny / name).read_bytes() for name in ("options.json", "weights.hdf5")}


@pytest.mark.parametrize(("name", "prefix"), [("144.zip", ""), ("144", "a/b/")])
def test_archives_are_models(
    tmp_path: Path, home: Path, contents: dict[str, bytes], tiny: Path, name: str, prefix: str
) -> None:
    """Under any name, with or without a folder; only what a model uses is extracted, and once."""
    model = {"options.json": contents["options.json"], "model.hdf5": contents["weights.hdf5"]}
    used = {**model, "vocab.txt": b"the\n", "parts.json": b"{}", "README.md": b"A card."}
    hidden = ["._model.hdf5", ".options.json", "__MACOSX/._options.json"]
    unused = dict.fromkeys([*hidden, "meta.json", "run.sh"], b"")
    members = [(prefix + inner, content) for inner, content in {**used, **unused}.items()]
    path = make(tmp_path / name, members)
    files = locate(path)
    folder = files.weights.parent
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == used
    assert folder.parent == home / "archives"
    assert folder.name.startswith("144-")
    assert load(path).name == "144"
    assert files.sha256 == locate(tiny).sha256
    before = folder.stat().st_mtime_ns
    assert locate(path).weights == files.weights
    assert folder.stat().st_mtime_ns == before


@pytest.mark.parametrize("stem", ["m" * 251, "模" * 83, "😀" * 62], ids=["1", "3", "4 bytes"])
def test_an_archive_may_have_a_name_that_is_as_long_as_names_can_be(
    stem: str, tmp_path: Path, contents: dict[str, bytes]
) -> None:
    """Its folder has a longer one, with a hash; names are limited in bytes."""
    path = make(tmp_path / f"{stem}.zip", list(contents.items()))
    assert locate(path).name == stem


@pytest.mark.parametrize(
    "suffix", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"]
)
def test_suffixes_of_archives(suffix: str) -> None:
    """A model is named after its archive, and a file of such a name is opened as one."""
    path = Path(f"v1.5_model{suffix}")
    assert is_archive(path)
    assert archive_stem(path) == "v1.5_model"


FILES_OF_MODELS = """
    weights.hdf5 model.h5 options.json elmo_options.json parts.json vocab.txt vocab-2016.txt.gz
    characters.txt words.txt README.md weights.th best.th config.json fta/model.options_file
    char.dic word.dic encoder.pkl token_embedder.pkl cnn_50_sample.json checkpoint
    model.ckpt-9.index model.ckpt-9.data-00000-of-00002 saved_model.pb variables/variables.index
    variables/variables.data-00001-of-00002
"""


@pytest.mark.parametrize("name", FILES_OF_MODELS.split())
def test_the_files_of_each_family_are_extracted(name: str) -> None:
    """Whatever folder they are in; nothing else is."""
    for path in (name, f"a/{name}", f"a/b/{name}"):
        assert _new_name(path) == name
    assert _new_name(f"a/.{name}") == f"a/.{name}"


MEBIBYTE = bytes(1 << 20)
UNSAFE: dict[str, tuple[Members, str]] = {
    "a parent": ([*OK, ("a/../../vocab.txt", b"")], "'a/../../vocab.txt' is encrypted, is a link"),
    "an absolute path": (
        [*OK, ("/tmp/weights.hdf5", b"")],
        "'/tmp/weights.hdf5' .* has a path",
    ),
    "a link": ([*OK, ("README.md", LINK)], "'README.md' .* is a link"),
    "a name in two folders": ([*OK, ("a/options.json", b"")], "'a/options.json' .* occurs twice"),
    "an unused name twice": ([*OK, ("x.sh", b""), ("x.sh", b"")], "'x.sh' .* occurs twice"),
    "a bomb in halves": (
        [("a.bin", MEBIBYTE), ("b.bin", MEBIBYTE)],
        "'b.bin' .* 1048576 bytes",
    ),
}


@pytest.mark.parametrize(("members", "reason"), UNSAFE.values(), ids=UNSAFE)
def test_unsafe_archives_are_refused(
    members: Members, reason: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_files, "MIN_LIMIT", 1 << 20)
    with pytest.raises(ModelError, match=rf"m\.zip: refused, since {reason}"):
        locate(make(tmp_path / "m.zip", members))
    assert [path.name for path in home.rglob("*")] == ["archives"]


def with_bytes(content: bytes, signature: bytes, offset: int, new: bytes) -> bytes:
    """Replace bytes at an offset after the first signature."""
    start = content.index(signature) + offset
    return content[:start] + new + content[start + len(new) :]


LOCAL_HEADER = b"PK\x03\x04"
CENTRAL_HEADER = b"PK\x01\x02"


def empty(content: bytes) -> bytes:
    return b""


def the_first_half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def all_but_the_end(content: bytes) -> bytes:
    return content[:-1]


def a_size_that_is_too_small(content: bytes) -> bytes:
    return with_bytes(content, CENTRAL_HEADER, 24, b"\x0a\0\0\0")


def an_unknown_method(content: bytes) -> bytes:
    content = with_bytes(content, LOCAL_HEADER, 8, b"\x63")
    return with_bytes(content, CENTRAL_HEADER, 10, b"\x63")


def encrypted(content: bytes) -> bytes:
    content = with_bytes(content, LOCAL_HEADER, 6, b"\1")
    return with_bytes(content, CENTRAL_HEADER, 8, b"\1")


def test_encrypted_zip_files(tmp_path: Path, home: Path) -> None:
    path = make(tmp_path / "m.zip", BIG)
    path.write_bytes(encrypted(path.read_bytes()))
    with pytest.raises(ModelError, match="is encrypted"):
        locate(path)


@pytest.mark.parametrize(
    "corrupt",
    [empty, the_first_half, all_but_the_end, a_size_that_is_too_small, an_unknown_method],
)
def test_corrupt_zip_files(corrupt: Callable[[bytes], bytes], tmp_path: Path, home: Path) -> None:
    path = make(tmp_path / "m.zip", BIG)
    path.write_bytes(corrupt(path.read_bytes()))
    with pytest.raises(ModelError, match="not a complete zip file") as caught:
        locate(path)
    assert "cut off" in caught.value.hint
    assert not list(home.rglob("*.hdf5"))


def test_corrupt_data_in_a_zip_file(tmp_path: Path, home: Path) -> None:
    """bz2 reports it as an error of the system."""
    path = make(tmp_path / "m.zip", BIG, zipfile.ZIP_BZIP2)
    path.write_bytes(path.read_bytes().replace(b"1AY&SY", b"2AY&SY"))  # the start of each block
    with pytest.raises(ModelError, match="not a complete zip file"):
        locate(path)
    assert not list(home.rglob("*.hdf5"))


def test_decompression_does_not_fill_the_memory(tmp_path: Path) -> None:
    """The decoder of xz data allocates the dictionary that a file asks for, up to 4 GiB."""
    path = make(tmp_path / "m.zip", BIG, zipfile.ZIP_LZMA)
    content = with_bytes(path.read_bytes(), b"weights.hdf5", 17, b"\xff\xff\xff\x7f")
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"more memory than 16 times its size|not a complete zip"):
        locate(path)


@pytest.mark.parametrize(
    ("name", "kind"), [("a/char.dic", "an ELMoForManyLangs model"), ("a/b.th", "found b.th")]
)
def test_archives_of_other_programs_are_described(name: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=rf"m\.zip: .*{kind}"):
        locate(make(tmp_path / "m.zip", [(name, b"")]))


def test_what_is_extracted_is_read_as_any_model(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"archives/m-\w{16}/options\.json: char_cnn is missing"):
        load(make(tmp_path / "m.zip", OK))
    with pytest.raises(ModelError, match=r"archives/n-\w{16}/weights\.hdf5: no options\.json"):
        locate(make(tmp_path / "n.zip", OK[1:]))


def test_interrupted_extractions_are_done_again(
    tmp_path: Path, home: Path, contents: dict[str, bytes]
) -> None:
    """What a killed process left is neither used nor kept."""
    path = make(tmp_path / "m.zip", list(contents.items()))
    folder = locate(path).weights.parent
    part = folder.rename(f"{folder}.part")
    (part / "weights.hdf5").write_bytes(b"half")
    assert locate(path).sha256 == locate(path.rename(tmp_path / "n.zip")).sha256
    assert not list(home.rglob("*.part"))


def test_a_full_disk(tmp_path: Path) -> None:
    path = make(tmp_path / "m.zip", BIG, zipfile.ZIP_STORED)
    with disk_of(1000), pytest.raises(OutputError, match=r"cannot be written \(File too large\)"):
        locate(path)
