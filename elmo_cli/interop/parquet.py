"""Embeddings files in Parquet: one row per token, or per sentence if vectors are pooled.

A file has the columns of `RowGroupWriter`, the settings of the run as metadata `elmo`, and a
`SentenceIndex`, so that elmo reads from it what it would read from HDF5. It needs pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.interop.parquet_index import ATTRIBUTE, IndexWriter
from elmo_cli.interop.parquet_reader import OpenParquet
from elmo_cli.interop.parquet_rows import EXTRA, LAYER, VECTOR, RowGroupWriter, TableColumns
from elmo_cli.requirements import import_program
from elmo_cli.store.layouts import StoredSentence, is_number, layout_of_spec
from elmo_cli.store.layouts.sentence_columns import SentenceColumns
from elmo_cli.store.layouts.sentence_datasets import NameLayout
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.recorded_facts import RecordedFacts
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


def check_program() -> None:
    """Raise an ElmoError if pyarrow is not installed."""
    import_program("pyarrow", EXTRA)


def open_file(path: Path) -> OpenParquet:
    """Open a file for reading; an EmbeddingsFileError if elmo has not written it."""
    return OpenParquet(path)


@contextmanager
def new_output_file(path: Path, spec: FileSpec, compression: str) -> Iterator[ParquetOutput]:
    """Create a file; after an error it has no footer, and is not Parquet.

    Args:
        compression: "none" or "zstd".
    Raises:
        OSError: no space left.
    """
    output = ParquetOutput(path, spec, compression)
    try:
        yield output
    finally:
        output.close()


class ParquetOutput:
    """A new embeddings file in Parquet: sentences are added one by one, then it is finished.

    Attributes:
        line_check: always None, because tokens are recorded.
    """

    line_check = None

    def __init__(self, path: Path, spec: FileSpec, compression: str) -> None:
        self._path = path
        self._spec = spec
        self._compression = compression
        self._layout = layout_of_spec(spec)
        self._is_per_sentence = spec.pooled or self._layout.unit == "types"
        self._facts = RecordedFacts(spec, self._layout, path.parent)
        self._sentences = SentenceColumns(path.parent, has_tokens=self._is_per_sentence)
        self._vector_columns: list[str] = []  # their names
        self._rows: RowGroupWriter | None = None
        self._has_tokens = True  # of all sentences so far

    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence, with its values."""
        self._facts.add(stored)
        if self._spec.forget_sentences:
            unknown_tokens = ("",) * len(stored.sentence.tokens)
            forgotten = replace(stored.sentence, tokens=unknown_tokens, text="")
            stored = replace(stored, sentence=forgotten)
        self._sentences.add(stored)

        sentence = stored.sentence
        array = self._layout.from_file(stored.values, pooled=self._spec.pooled)
        n_axes_of_layer = 1 if self._is_per_sentence else 2
        has_layers = array.ndim > n_axes_of_layer
        layers = list(array) if has_layers else [array]
        if self._rows is None:
            self._vector_columns = self._vector_names(len(layers), has_layers)
            self._rows = self._begin(array.shape[-1])
        if self._is_per_sentence:
            layers = [layer[np.newaxis] for layer in layers]
        self._rows.add(self._key(sentence), self._strings(sentence), layers, where=sentence.where)

    def add_token_digests(self, digests: bytes) -> None:
        """Add the digests of the next sentences, also of those that the layout leaves out."""
        self._facts.add_token_digests(digests)

    def finish(self, attributes: Mapping[str, Any]) -> None:
        """Write the last rows, the index of sentences and all attributes."""
        if self._rows is None:
            self._rows = self._begin(dim=0)
        rows = self._rows
        rows.write_last_group()
        index = IndexWriter(rows.sink)
        for name, numbers, _ in self._sentences.data_sets():
            index.add(name, numbers)
        facts = {}
        # Pooled files in HDF5 may record how many tokens there are, and not which.
        if attributes.get("tokens", self._facts.n_tokens) != self._facts.n_tokens:
            self._has_tokens = False
        for name, value in self._facts.items({}, attributes):
            if isinstance(value, Spool | np.ndarray):
                index.add(f"{ATTRIBUTE}{name}", value)
            else:
                facts[name] = value
        index_json = index.to_json(has_tokens=self._has_tokens, vector_columns=self._vector_columns)
        rows.finish({"elmo": json.dumps(facts), "elmo_index": index_json})
        self._rows = None

    def close(self) -> None:
        """Remove temporary files; a file that is not finished gets no footer."""
        self._facts.close()
        self._sentences.close()
        if self._rows is not None:
            self._rows.abandon()

    def _begin(self, dim: int) -> RowGroupWriter:
        columns = TableColumns(
            is_named=self._layout.keyed_by == "name",
            is_per_sentence=self._is_per_sentence,
            vectors=tuple(self._vector_columns),
            dim=dim,
            dtype=self._spec.dtype,
        )
        return RowGroupWriter(self._path, columns, self._compression)

    def _vector_names(self, n_layers: int, has_layers: bool) -> list[str]:
        """The columns of vectors: `layer_0`, … with the numbers of layers, or `vector`."""
        if not has_layers:
            return [VECTOR]
        setting = "".join(str(self._spec.run_settings.get("layers")).split())
        numbers = setting.split(",")
        if len(numbers) != n_layers or not all(map(is_number, numbers)):
            numbers = [str(number) for number in range(n_layers)]
        return [f"{LAYER}{number}" for number in numbers]

    def _key(self, sentence: Sentence) -> int | str:
        """The key that `open_embeddings` gives."""
        if isinstance(self._layout, NameLayout):
            return self._layout.key_of_name(self._layout.dataset_name(sentence))
        return sentence.key

    def _strings(self, sentence: Sentence) -> list[str | None]:
        """The text of the only row of a sentence, or the tokens of its rows; None if unknown."""
        tokens = sentence.tokens
        is_known = any(tokens) or not tokens
        if not is_known:
            self._has_tokens = False
        if not self._is_per_sentence:
            return list(tokens) if is_known else [None] * len(tokens)
        if any(tokens):
            return [sentence.text or " ".join(tokens)]
        if sentence.text:
            is_named_by_text = sentence.text == self._key(sentence)
            return [None if is_named_by_text else sentence.text]
        # What has no text is a blank line, unless the layout does not record lines.
        is_recorded = self._layout.records_lines and not self._spec.forget_sentences
        return ["" if is_recorded and not tokens else None]
