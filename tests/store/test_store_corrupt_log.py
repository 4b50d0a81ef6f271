"""EmbeddingsWriter on a corrupt unfinished output: computed again or refused, never kept."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest
from writer_runs import append, attributes, names, run, spec

from elmo_cli.errors import ElmoError, OutputError, ResumeError
from elmo_cli.store.layouts import layout_of_spec
from elmo_cli.store.unfinished import log_path
from elmo_cli.store.writer import EmbeddingsWriter


class Damage:
    """An unfinished output of four sentences, and the file that the undisturbed run makes."""

    def __init__(self, folder: Path, way: str) -> None:
        self.way = way
        self.out = folder / "out.hdf5"
        self.part = Path(f"{self.out}.part")
        self.log = log_path(self.part)
        self.data_start = layout_of_spec(spec(way)).data_start
        run(self.out, way)
        self.whole = self.out.read_bytes()
        self.out.unlink()
        run(self.out, way, n=4, finish=False)
        self.data = self.part.read_bytes()
        self.lines = self.log.read_bytes()
        self.counts = {"warned": 0, "refused": 0, "silent": 0}

    def resume(self, data: bytes, lines: bytes) -> str:
        """Resume a changed output; it must end in the bytes of the undisturbed run, or an error."""
        for path in self.out.parent.iterdir():
            path.unlink()
        self.part.write_bytes(data)
        self.log.write_bytes(lines)
        try:
            writer = run(self.out, self.way, resume=True)
        except ElmoError as error:
            assert not self.out.exists()
            self.counts["refused"] += 1
            return str(error)
        assert self.out.read_bytes() == self.whole
        assert names(self.out.parent) == ["out.hdf5"]
        self.counts["warned" if writer.warnings else "silent"] += 1
        return "".join(writer.warnings)


def flipped(content: bytes, position: int) -> bytes:
    byte = bytes([content[position] ^ 1 << position % 8])
    return content[:position] + byte + content[position + 1 :]


@pytest.mark.parametrize("way", ["allennlp", "manylangs", "int8"])
def test_a_changed_byte_is_recomputed_or_refused(way: str, tmp_path: Path) -> None:
    """It would be resumed into a finished file without a word."""
    damage = Damage(tmp_path, way)
    step = 31
    for position in range(damage.data_start, len(damage.data), step):
        message = damage.resume(flipped(damage.data, position), damage.lines)
        assert "is corrupt (checksum)" in message, position
    for position in range(random.randrange(step), len(damage.lines), step):
        damage.resume(damage.data, flipped(damage.lines, position))
    assert damage.counts["refused"] <= damage.lines.index(b"\n") // step + 1
    assert damage.counts["silent"] <= 1  # the last line end, as a kill leaves it


@pytest.mark.parametrize("way", ["allennlp", "flat"])
def test_a_cut_is_recomputed_or_refused(way: str, tmp_path: Path) -> None:
    """A power failure cuts what was not yet on the disk."""
    damage = Damage(tmp_path, way)
    for end in range(damage.data_start, len(damage.data), 41):
        assert "is corrupt" in damage.resume(damage.data[:end], damage.lines)
    for end in range(0, len(damage.lines), 41):
        damage.resume(damage.data, damage.lines[:end])
    assert damage.counts["refused"] == 0


def signed(content: bytes) -> bytes:
    return content + b" %08x\n" % zlib.crc32(content)


def changed(line: bytes, old: bytes, new: bytes) -> bytes:
    assert old in line
    return signed(line.rpartition(b" ")[0].replace(old, new))


@pytest.mark.parametrize("replacement", [b"", signed(b"[]"), signed(b"[" * 100_000)])
def test_a_block_that_is_missing_or_none_is_recomputed(replacement: bytes, tmp_path: Path) -> None:
    """A line may have a right checksum and still not be the next one."""
    damage = Damage(tmp_path, "allennlp")
    header, _, second = damage.lines.splitlines(keepends=True)
    message = damage.resume(damage.data, header + replacement + second)
    assert "is corrupt (checksum); computing it and the following ones again" in message


@pytest.mark.parametrize("shape", [b"[3,3,4000000000000]", b"[-3,-3,4]"])
def test_a_block_with_an_impossible_shape_is_recomputed(shape: bytes, tmp_path: Path) -> None:
    """A huge shape must not cause a huge allocation."""
    damage = Damage(tmp_path, "allennlp")
    header, first, second = damage.lines.splitlines(keepends=True)
    lines = header + first + changed(second, b"[3,3,4]", shape)
    message = damage.resume(damage.data, lines)
    assert "is corrupt (checksum); computing it and the following ones again" in message


@pytest.mark.parametrize("way", ["bilm", "flat"])
def test_values_that_vanish_before_the_end(way: str, out: Path, part: Path) -> None:
    """The file would be complete, with zeros for what is no longer there."""
    with EmbeddingsWriter.open(out, spec(way)) as writer:
        append(writer, way, n=6, block=2)
        os.truncate(part, part.stat().st_size - 5)
        with pytest.raises(OutputError, match="became shorter"):
            writer.finish({})
    assert "block 3 is corrupt" in run(out, way, resume=True).warnings[0]


@pytest.mark.parametrize("header", [b"{}", b"[]", b'{"elmo_block_log":1,"settings":{}}'])
def test_settings_that_cannot_be_read(header: bytes, tmp_path: Path) -> None:
    """Nobody knows then what the values are; `overwrite` starts over."""
    damage = Damage(tmp_path, "allennlp")
    lines = [signed(header), *damage.lines.splitlines(keepends=True)[1:]]
    assert damage.resume(damage.data, b"".join(lines))
    assert damage.counts["refused"] == 1
    if header.startswith(b'{"elmo'):
        with pytest.raises(ResumeError, match="its settings cannot be read"):
            run(damage.out, "allennlp")
        run(damage.out, "allennlp", overwrite=True)
        assert damage.out.read_bytes() == damage.whole


@pytest.mark.parametrize("position", [-1, 1 << 40, 1 << 70])
def test_values_at_an_impossible_position(position: int, tmp_path: Path) -> None:
    """The file would be made as large, or the number would be too large for the system."""
    damage = Damage(tmp_path, "allennlp")
    header, *blocks = damage.lines.splitlines(keepends=True)
    header = changed(header, b'"data_start":%d' % damage.data_start, b'"data_start":%d' % position)
    message = damage.resume(damage.data, b"".join([header, *blocks]))
    assert "its settings cannot be read" in message


@pytest.mark.parametrize("way", ["bilm", "flat"])
@pytest.mark.parametrize("n_bytes_kept", [None, -300])
def test_a_log_that_becomes_corrupt_while_it_is_written(
    n_bytes_kept: int | None, way: str, out: Path, part: Path
) -> None:
    """Hours lie between the commit and the end; the finished file would lack sentences."""
    with EmbeddingsWriter.open(out, spec(way)) as writer:
        append(writer, way, n=6, block=2)
        content = log_path(part).read_bytes()
        log_path(part).write_bytes(flipped(content, len(content) - 100)[:n_bytes_kept])
        with pytest.raises(ResumeError, match="block 3 is corrupt"):
            writer.finish({})
    assert names(out.parent) == ["out.hdf5.part", "out.hdf5.part.log"]
    writer = run(out, way, resume=True)
    if n_bytes_kept is None:  # otherwise it ends as after a kill
        assert "block 3 is corrupt" in writer.warnings[0]
    assert attributes(out)["sentences"] == 6
