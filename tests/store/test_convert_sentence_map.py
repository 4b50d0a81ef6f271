"""convert with `sentence_map`: the mapping from sentences to keys of a finished file is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from embedding_files import BARE, lines, made, write

from elmo_cli.errors import UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.reader import open_embeddings

NUMBERED = {"allennlp": {}, "flat": {}, "allennlp, float16": {"dtype": "float16"}}


@pytest.mark.parametrize("source", [*NUMBERED, "allennlp, occurrences"])
@pytest.mark.parametrize("sentence_map", ["last", "occurrences"])
def test_the_sentence_map_can_be_changed(tmp_path: Path, source: str, sentence_map: str) -> None:
    """The file is that of a run with this map; by default, the map stays as it is."""
    options = NUMBERED.get(source, {})
    if source == "flat":
        write(tmp_path / "a.hdf5", lines(), layout="flat")
    else:
        made(tmp_path / "a.hdf5", source)
    asked = {"layout": "allennlp", "sentence_map": sentence_map}
    convert(tmp_path / "a.hdf5", tmp_path / "b.hdf5", **asked)
    write(tmp_path / "c.hdf5", lines(), **asked, **options)
    assert (tmp_path / "b.hdf5").read_bytes() == (tmp_path / "c.hdf5").read_bytes()
    convert(tmp_path / "b.hdf5", tmp_path / "d.hdf5")
    assert (tmp_path / "d.hdf5").read_bytes() == (tmp_path / "c.hdf5").read_bytes()
    convert(tmp_path / "b.hdf5", tmp_path / "e.hdf5", layout="flat")
    with open_embeddings(tmp_path / "e.hdf5") as flat:
        assert "sentence_map" not in flat.attributes  # of a file that has no map


@pytest.mark.parametrize(
    ("options", "layout", "message"),
    [
        ({"layout": "allennlp"}, "flat", "`sentence_map=occurrences` and `layout=flat` cannot"),
        ({"layout": "allennlp", "forget_sentences": True}, None, "a.hdf5: has no lines"),
        ({"layout": "allennlp", "keys": "sentence"}, None, "a.hdf5: has no lines"),
        ({"layout": "bilm"}, "allennlp", "a.hdf5: has no lines"),
    ],
)
def test_a_sentence_map_that_cannot_be_made_is_refused(
    tmp_path: Path, options: dict[str, Any], layout: str | None, message: str
) -> None:
    write(tmp_path / "a.hdf5", BARE, **options)
    asked = {"layout": layout, "sentence_map": "occurrences"}
    with pytest.raises(UsageError) as caught:
        convert(tmp_path / "a.hdf5", tmp_path / "b.hdf5", **asked)
    assert message in caught.value.message
    assert "`sentence_map`" in caught.value.hint
    assert not (tmp_path / "b.hdf5").exists()
