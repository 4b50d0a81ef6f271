"""Files whose sentences were collected block after block, compared with those made from the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from writer_runs import array, run, sentences, spec

from elmo_cli.errors import EmbeddingsFileError, OutputError
from elmo_cli.store import log_lines
from elmo_cli.store.collected_sentences import CollectedSentences
from elmo_cli.store.layouts import layout_of_spec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence


@pytest.mark.parametrize("way", ["flat", "int8", "pooled"])
def test_what_was_collected_has_the_bytes_of_what_the_log_says(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file must not depend on whether its run was resumed."""
    run(tmp_path / "collected.hdf5", way, n=7, block=3)
    with monkeypatch.context() as patch:
        patch.setattr(log_lines.LoggedSentence, "unpack", None)  # the log is not read
        run(tmp_path / "again.hdf5", way, n=7, block=3)
    monkeypatch.setattr(CollectedSentences, "new", lambda *_: None)
    run(tmp_path / "log.hdf5", way, n=7, block=3)
    expected = (tmp_path / "log.hdf5").read_bytes()
    assert (tmp_path / "collected.hdf5").read_bytes() == expected
    assert (tmp_path / "again.hdf5").read_bytes() == expected


def test_a_block_that_failed_is_not_in_the_file(tmp_path: Path) -> None:
    """Some of its sentences were collected before the error."""
    block = sentences(9, "flat")
    arrays = [array(sentence) for sentence in block]
    too_large = [*arrays[3:5], arrays[5] * 1e30]
    files = []
    for name in ("failed", "undisturbed"):
        files.append(tmp_path / f"{name}.hdf5")
        with EmbeddingsWriter.open(files[-1], spec("flat", dtype="float16")) as writer:
            writer.append_block(block[:3], arrays[:3], text_sha256="")
            if name == "failed":
                with pytest.raises(OutputError, match="beyond the range"):
                    writer.append_block(block[3:6], too_large, text_sha256="")
            writer.append_block(block[6:], arrays[6:], text_sha256="")
            writer.finish({})
    assert files[0].read_bytes() == files[1].read_bytes()


def test_vectors_of_two_shapes_are_refused_at_the_end(out: Path) -> None:
    block = sentences(4, "flat")
    arrays = [array(sentence) for sentence in block]
    arrays[2] = arrays[2][:2]
    with EmbeddingsWriter.open(out, spec("flat")) as writer:
        writer.append_block(block, arrays, text_sha256="")
        with pytest.raises(EmbeddingsFileError, match="of 2 shapes"):
            writer.finish({})


@pytest.mark.parametrize("document", [None, 'bc/"cctv"_0\u00e9'])
@pytest.mark.parametrize("text", ["", "a  \u6f22\ud800", "tab\tand \\ \x7f"])
def test_the_identity_in_flat_is_json(text: str, document: str | None) -> None:
    """Checksums in files are of these bytes, so they must never change."""
    tokens = ('a"', "\u6f22\U0001f600", "\ud800", "\n")
    sentence = Sentence(tokens, 7, text=text, document=document, place=2, offset=3)
    facts: list[object] = [7, tokens, text or " ".join(tokens)]
    if document:
        facts += [document, 2, 3]
    assert layout_of_spec(spec("flat")).identity(sentence) == json.dumps(facts).encode("ascii")
