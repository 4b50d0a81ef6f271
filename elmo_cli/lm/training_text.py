"""TrainingText: what a run learns from and is measured on, from files or kept beside the run."""

from __future__ import annotations

import json
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elmo_cli.errors import ResumeError
from elmo_cli.files import new_file
from elmo_cli.lm.corpus import Corpus, overlap
from elmo_cli.lm.read_corpus import read_corpus, without
from elmo_cli.lm.settings import TextSettings
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport

FILE_NAME = "text.npz"
_FORM = 1  # of the file; another form has another number
_LEVEL = 4  # of deflate: 9 takes ten times as long for 2 % less
_DAMAGED = (  # what zipfile, numpy and json find damage with
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    MemoryError,
    OverflowError,
    RuntimeError,  # NotImplementedError and RecursionError among them
    SyntaxError,
    AttributeError,  # what is no array comes out of the zip as bytes
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class TrainingText:
    """What a run learns from, and what it is measured on.

    Attributes:
        corpus: that is learned.
        heldout: that is measured; None for none.
        skipped: (source, line, reason) of each line that could not be read and was left out.
    """

    corpus: Corpus
    heldout: Corpus | None = None
    skipped: Sequence[tuple[str, int, str]] = field(default=())

    @classmethod
    def read(cls, files: TextSettings, *, max_characters: int, notes: InputReport) -> TrainingText:
        """Read text files.

        Raises:
            TrainingError: there is no sentence.
            InputError, UsageError: as `text.read_sentences`.
        """
        read = partial(
            read_corpus, reading=files.reading, max_characters=max_characters, notes=notes
        )
        corpus = read(
            without(files.texts, files.heldout),
            most_tokens=files.train_tokens_per_file,
            treebank=files.treebank_fraction,
        )
        heldout = None
        if files.heldout:
            heldout = read(files.heldout, most_tokens=files.heldout_tokens_per_file)
            overlap(heldout, corpus, notes)  # warns
        return cls(corpus, heldout, tuple(notes.skipped))

    def keep(self, folder: Path) -> None:
        """Write the text as numbers into the folder of a run.

        The file is a zip of arrays that `numpy.load` reads: 1.4 to 1.7 bytes a token.

        Raises:
            OutputError: it can't be written.
        """
        with new_file(folder / FILE_NAME, durable=True) as file:
            self._write(file)

    @classmethod
    def kept(cls, folder: Path, *, max_characters: int) -> TrainingText:
        """The text that `keep` has written.

        Args:
            max_characters: that the model reads of a token.
        Raises:
            ResumeError: the file is gone, damaged, or of another form.
        """
        path = folder / FILE_NAME
        try:
            with zipfile.ZipFile(path) as archive:  # numpy itself need not come to the checksums
                if damaged := archive.testzip():
                    raise ValueError(f"damaged at {damaged}")
            with np.load(path, allow_pickle=False) as arrays:
                facts = json.loads(arrays["facts"].tobytes())
                if facts["form"] != _FORM:
                    raise ValueError(f"form {facts['form']}, not {_FORM}")
                named = ("text", "heldout") if facts["heldout"] else ("text",)
                read = [_corpus(arrays, name, max_characters) for name in named]
                skipped = [(str(s), int(line), str(why)) for s, line, why in facts["skipped"]]
        except _DAMAGED as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise ResumeError(
                f"{path}: not the text of a run ({reason})",
                "without this file `--resume` reads the texts anew",
            ) from None
        return cls(read[0], read[1] if len(read) > 1 else None, skipped)

    def _write(self, file: BinaryIO) -> None:
        facts = {"form": _FORM, "heldout": self.heldout is not None, "skipped": self.skipped}
        arrays = {"facts": _bytes_of(facts), **_arrays("text", self.corpus)}
        if self.heldout is not None:
            arrays |= _arrays("heldout", self.heldout)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def _arrays(name: str, corpus: Corpus) -> dict[str, np.ndarray[Any, Any]]:
    """A corpus as arrays that compress well: the bytes of all numbers of tokens by their place."""
    places = np.ascontiguousarray(corpus.tokens.astype("<i4").view(np.uint8).reshape(-1, 4).T)
    arrays = {
        f"{name}-tokens": places,
        f"{name}-lengths": np.diff(corpus.starts).astype("<i4"),
        f"{name}-types": _bytes_of(corpus.types),
    }
    if corpus.documents is not None:
        arrays[f"{name}-documents"] = corpus.documents.astype("<i8")
    return arrays


def _corpus(arrays: Any, name: str, max_characters: int) -> Corpus:
    """The corpus that `_arrays` took apart.

    Raises:
        ValueError: its arrays contradict each other.
    """
    types = tuple(json.loads(arrays[f"{name}-types"].tobytes()))
    tokens = np.ascontiguousarray(arrays[f"{name}-tokens"].T).view("<i4").ravel().astype(np.int32)
    lengths = arrays[f"{name}-lengths"].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    documents = arrays.get(f"{name}-documents")
    if (
        not all(isinstance(token, str) for token in types)
        or types[:2] != (BEGIN, END)
        or not 0 <= tokens.min() <= tokens.max() < len(types)
        or lengths.min() < 3  # a token between its borders
        or starts[-1] != len(tokens)
        or not (documents is None or _are_documents(documents, len(lengths)))
    ):
        raise ValueError(f"{name}: its parts don't go together")
    characters = CharacterIds(max_characters).tokens(types).astype(np.int16)
    return Corpus(tokens, starts, types, characters, documents)


def _are_documents(documents: np.ndarray[Any, Any], n_sentences: int) -> bool:
    """Whether these may be the sentences that documents begin with, and their number."""
    return bool(
        documents.dtype == np.int64
        and documents.ndim == 1
        and documents[:1] == 0
        and documents[-1] == n_sentences
        and (np.diff(documents) > 0).all()
    )


def _bytes_of(value: object) -> np.ndarray[Any, Any]:
    return np.frombuffer(json.dumps(value).encode("ascii"), np.uint8)
