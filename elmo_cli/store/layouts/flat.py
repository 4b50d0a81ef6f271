"""flat: one array for all sentences, with offsets and tokens beside it; for big corpora."""

from __future__ import annotations

import numpy as np

from elmo_cli.store.int8 import INT8, quantized
from elmo_cli.store.layouts.column import Column
from elmo_cli.store.layouts.contract import Layout, OpenFile
from elmo_cli.text.sentence import Sentence

VECTOR_CHUNK_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16


class Flat(Layout):
    """The datasets of SCHEMA.md's `flat`."""

    alignment = 4096

    def __init__(self, target: OpenFile) -> None:
        self._target = target
        self._offsets = _integers(target, "offsets")
        if not self._offsets.n_rows:
            self._offsets.append(np.zeros(1, np.int64))
        self._tokens = Strings(target, "token")
        self._numbers = Runs(target, "numbers", 2)
        self._vectors: Vectors | None = None
        if "vectors" in target.file:
            self._vectors = Vectors(target, target.file["vectors"].shape[1:])
        self._documents = Documents(target) if "documents" in target.file else None
        self._texts = Texts(target) if "texts" in target.file else None

    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        rows = self._rows(sentence, array)
        position = self._offsets.n_rows - 1
        if self._vectors is None:
            self._vectors = Vectors(self._target, rows.shape[1:])
        if rows.shape[1:] != self._vectors.row:
            raise ValueError(f"rows of shape {rows.shape[1:]} after {self._vectors.row}")
        self._vectors.append(rows)
        self._tokens.append(sentence.tokens)
        self._offsets.append(np.array([self._tokens.n_strings]))
        self._numbers.append((position, sentence.key), follows=(1, 1))
        self._append_document(position, sentence)
        self._append_text(position, sentence)
        return True

    def close(self) -> None:
        for column in (self._offsets, self._tokens, self._numbers, self._vectors):
            if column is not None:
                column.close()
        for part in (self._documents, self._texts):
            if part is not None:
                part.close()

    def _rows(self, sentence: Sentence, array: np.ndarray) -> np.ndarray:
        """The array as rows of `vectors`, (row, layer, dim) or (row, dim)."""
        if self._target.pooled:
            return array[np.newaxis]
        if array.shape[-2] != len(sentence.tokens):
            raise ValueError(f"an array of shape {array.shape} for {len(sentence.tokens)} tokens")
        return array.swapaxes(0, 1) if array.ndim == 3 else array

    def _append_document(self, position: int, sentence: Sentence) -> None:
        if self._documents is None:
            if sentence.document is None:
                return
            self._documents = Documents(self._target)
        self._documents.append(position, sentence)

    def _append_text(self, position: int, sentence: Sentence) -> None:
        if not sentence.text or sentence.text == " ".join(sentence.tokens):
            return
        if self._texts is None:
            self._texts = Texts(self._target)
        self._texts.append(position, sentence.text)


class Vectors:
    """`vectors`, and `scales` where values are int8.

    Attributes:
        row: shape of a row, (layer, dim) or (dim,).
    """

    def __init__(self, target: OpenFile, row: tuple[int, ...]) -> None:
        self.row = row
        self._values = Column(
            target, "vectors", target.dtype, row=row, chunk_bytes=VECTOR_CHUNK_BYTES
        )
        self._scales: Column | None = None
        if target.dtype == INT8:
            self._scales = Column(
                target, "scales", np.float32, row=row[:-1], chunk_bytes=CHUNK_BYTES
            )

    def append(self, rows: np.ndarray) -> None:
        if self._scales is None:
            self._values.append(rows)
            return
        values, scales = quantized(rows)
        self._values.append(values)
        self._scales.append(scales)

    def close(self) -> None:
        self._values.close()
        if self._scales is not None:
            self._scales.close()


class Strings:
    """Many strings as `NAME_bytes` and `NAME_ends`."""

    def __init__(self, target: OpenFile, name: str) -> None:
        self._bytes = Column(target, f"{name}_bytes", np.uint8, chunk_bytes=CHUNK_BYTES)
        self._ends = _integers(target, f"{name}_ends")

    @property
    def n_strings(self) -> int:
        return self._ends.n_rows

    def append(self, strings: tuple[str, ...]) -> None:
        # jsonl can bring half a surrogate pair; it is kept as it is.
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        ends = self._bytes.n_rows + np.cumsum([len(string) for string in encoded], dtype=np.int64)
        self._bytes.append(np.frombuffer(b"".join(encoded), np.uint8))
        self._ends.append(ends)

    def close(self) -> None:
        self._bytes.close()
        self._ends.close()


class Runs:
    """Rows of integers, of which only those are stored that don't follow from the one before."""

    def __init__(self, target: OpenFile, name: str, width: int) -> None:
        self._column = _integers(target, name, (width,))
        n_rows = self._column.n_rows
        stored = target.file[name][n_rows - 1] if n_rows else None
        self._last: tuple[int, ...] | None = None if stored is None else tuple(map(int, stored))

    def append(self, row: tuple[int, ...], *, follows: tuple[int, ...], anew: bool = False) -> bool:
        """Add a row.

        Args:
            row: its first number is the position.
            follows: by how much each number grows in a run, a position.
            anew: begin a run in any case.
        Returns:
            whether a run begins.
        """
        if self._last is not None and not anew:
            steps = row[0] - self._last[0]
            expected = (
                first + steps * step for first, step in zip(self._last, follows, strict=True)
            )
            if row == tuple(expected):
                return False
        self._column.append(np.array([row], np.int64))
        self._last = row
        return True

    def close(self) -> None:
        self._column.close()


class Documents:
    """Which sentences belong to which document."""

    def __init__(self, target: OpenFile) -> None:
        self._runs = Runs(target, "documents", 3)
        self._keys = Strings(target, "document")
        self._last = _last_string(target, "document")

    def append(self, position: int, sentence: Sentence) -> None:
        key = sentence.document or ""
        if key == self._last == "":
            return  # outside of documents nothing counts on
        row = (position, sentence.place, sentence.offset)
        if self._runs.append(row, follows=(1, 1, 0), anew=key != self._last):
            self._keys.append((key,))
            self._last = key

    def close(self) -> None:
        self._runs.close()
        self._keys.close()


class Texts:
    """Texts that are not their tokens joined by one space."""

    def __init__(self, target: OpenFile) -> None:
        self._positions = _integers(target, "texts")
        self._strings = Strings(target, "text")

    def append(self, position: int, text: str) -> None:
        self._positions.append(np.array([position]))
        self._strings.append((text,))

    def close(self) -> None:
        self._positions.close()
        self._strings.close()


def _integers(target: OpenFile, name: str, row: tuple[int, ...] = ()) -> Column:
    return Column(target, name, np.int64, row=row, chunk_bytes=CHUNK_BYTES)


def _last_string(target: OpenFile, name: str) -> str | None:
    ends = target.file[f"{name}_ends"]
    if not len(ends):
        return None
    start = int(ends[-2]) if len(ends) > 1 else 0
    content: bytes = target.file[f"{name}_bytes"][start : int(ends[-1])].tobytes()
    return content.decode("utf-8", "surrogatepass")
