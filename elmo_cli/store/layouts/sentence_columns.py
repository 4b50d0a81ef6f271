"""SentenceColumns: what is known of sentences besides their vectors, in columns."""

from __future__ import annotations

from collections.abc import Iterator

from elmo_cli.files import StrPath
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.text.utf8 import encode_strings

_MAX_PENDING = 1 << 18  # values in memory


class SentenceColumns:
    """Collects what is known of the sentences besides their vectors, by name of the data set.

    Args:
        folder: the folder of temporary files; its disk needs space for the columns.
        has_tokens: whether the tokens are columns, too.
    """

    def __init__(self, folder: StrPath, *, has_tokens: bool = True) -> None:
        self._scales = Spool(folder, "<f4")
        self._row_shape_of_scales: tuple[int, ...] | None = None
        self._has_tokens = has_tokens
        self._strings: dict[str, list[str]] = {}  # not encoded yet
        self._bytes: dict[str, Spool] = {}
        self._integers: dict[str, Spool] = {}
        for name in ("token", "text", "document"):
            self._strings[name] = []
            self._bytes[name] = Spool(folder, "u1")
            self._integers[f"{name}_ends"] = Spool(folder, "<i8")
        for name in ("offsets", "keys", "places", "part_offsets"):
            self._integers[name] = Spool(folder, "<i8")
        self._append("offsets", 0)
        self._n_tokens = 0
        self._n_pending = 0  # characters of tokens and texts in memory, and sentences

    def add(self, stored: StoredSentence) -> None:
        """Add a sentence."""
        sentence = stored.sentence
        if stored.scales is not None:
            self._scales.pending.frombytes(stored.scales.tobytes())
            self._row_shape_of_scales = stored.scales.shape[1:]
        joined_tokens = " ".join(sentence.tokens)
        own_text = "" if sentence.text == joined_tokens else sentence.text
        if self._has_tokens:
            self._strings["token"].extend(sentence.tokens)
        self._strings["text"].append(own_text)
        self._strings["document"].append(sentence.document or "")
        self._n_tokens += len(sentence.tokens)
        self._append("offsets", self._n_tokens)
        self._append("keys", sentence.key)
        self._append("places", sentence.place if sentence.document else 0)
        self._append("part_offsets", sentence.offset if sentence.document else 0)
        self._n_pending += len(joined_tokens) + len(own_text) + 1
        if self._n_pending > _MAX_PENDING:
            self._encode_strings()
            for spool in self._spools():
                spool.move_to_disk()
            self._n_pending = 0

    def _append(self, name: str, number: int) -> None:
        self._integers[name].pending.append(number)

    def _encode_strings(self) -> None:
        """Move all strings to their columns."""
        for name, strings in self._strings.items():
            n_bytes_before = len(self._bytes[name])
            # JSON can contain half a surrogate pair, which is kept.
            content, ends = encode_strings(strings, "surrogatepass")
            self._bytes[name].pending.frombytes(content)
            self._integers[f"{name}_ends"].pending.frombytes((n_bytes_before + ends).tobytes())
            self._strings[name] = []

    def data_sets(self) -> Iterator[tuple[str, Spool, tuple[int, ...]]]:
        """Yield the name, the values and the shape of a row of each data set, in file order.

        Data sets of lines and documents exist only if some sentence has one.
        """
        self._encode_strings()
        if self._row_shape_of_scales is not None:
            yield "scales", self._scales, self._row_shape_of_scales
        yield "offsets", self._integers["offsets"], ()
        yield "keys", self._integers["keys"], ()
        for name, content in self._bytes.items():
            if len(content) or (name == "token" and self._has_tokens):
                yield f"{name}_bytes", content, ()
                yield f"{name}_ends", self._integers[f"{name}_ends"], ()
        if len(self._bytes["document"]):
            yield "places", self._integers["places"], ()
            yield "part_offsets", self._integers["part_offsets"], ()

    def close(self) -> None:
        """Remove the temporary files."""
        for spool in self._spools():
            spool.close()

    def _spools(self) -> list[Spool]:
        return [self._scales, *self._bytes.values(), *self._integers.values()]
