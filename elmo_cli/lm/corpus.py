"""Corpus: the sentences of a text as type numbers, and the file that a run stores them in."""

from __future__ import annotations

import json
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import ResumeError, TrainingError
from elmo_cli.files import new_file
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
_LARGE_OVERLAP = 0.1
_VERSION = 2  # of the file with the texts of a run


@dataclass(frozen=True)
class Corpus:
    """Sentences as numbers of their types.

    Attributes:
        tokens: all sentences one after the other, each with `<S>` and `</S>`, (token,) int32:
            numbers into the two tables that follow, not ids of a vocabulary.
        starts: where each sentence begins, and at last where the text ends, (sentence + 1,) int64.
        types: every distinct type; `<S>` and `</S>` are the first two.
        characters: their character ids, (type, char) int16.
        documents: the first sentence of each document, and the number of sentences,
            (document + 1,) int64.
        lines: file and line of each sentence, if they were asked for.
    """

    tokens: Int32Array
    starts: Int64Array
    types: tuple[str, ...]
    characters: npt.NDArray[np.int16]
    documents: Int64Array
    lines: Sequence[tuple[str, int]] = ()

    @property
    def n_sentences(self) -> int:
        """Sentences in the text."""
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        """Tokens in the text, borders not counted."""
        return len(self.tokens) - 2 * self.n_sentences

    @property
    def fingerprint(self) -> str:
        """Identify the text: its length and a CRC-32 over types, tokens and document starts."""
        types = "\n".join(self.types).encode("utf-8", "surrogatepass")
        checksum = 0
        for content in (self.tokens.data, types, self.documents.data):
            checksum = zlib.crc32(content, checksum)
        n_documents = len(self.documents) - 1
        return f"{self.n_tokens} tokens, {n_documents} documents, crc {checksum:08x}"

    @classmethod
    def read(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        begins: Sequence[int] | None = None,
        max_characters: int = 50,
        name: str = "the text",
    ) -> Corpus:
        """Number the types of sentences; sentences without tokens are left out.

        Args:
            begins: numbers of the first sentences of documents, not counting those without tokens;
                may be filled while `sentences` is read. None for one document.
            max_characters: ids that the model reads per token.
            name: of the text, for messages.
        Raises:
            TrainingError: there is no sentence.
        """
        numbers: dict[str, int] = {BEGIN: 0, END: 1}
        tokens, starts = array("i"), array("q", [0])
        for sentence in sentences:
            if len(sentence) == 0:
                continue
            tokens.append(0)
            tokens.extend([numbers.setdefault(token, len(numbers)) for token in sentence])
            tokens.append(1)
            starts.append(len(tokens))
        if len(starts) == 1:
            raise TrainingError(f"{name}: contains no sentences", "give a text with tokens in it")
        return cls(
            np.asarray(tokens, np.int32),
            np.asarray(starts, np.int64),
            tuple(numbers),
            CharacterIds(max_characters).tokens(numbers).astype(np.int16),
            np.asarray([*([0] if begins is None else begins), len(starts) - 1], np.int64),
        )

    def select(self, wanted: npt.NDArray[np.bool_]) -> Corpus:
        """Some sentences as a corpus of its own.

        Args:
            wanted: which sentences, (sentence,).
        """
        lengths = np.diff(self.starts)
        tokens = self.tokens[np.repeat(wanted, lengths)]
        document = np.repeat(np.arange(len(self.documents) - 1), np.diff(self.documents))[wanted]
        types, numbers = np.unique(tokens, return_inverse=True)  # <S> and </S> stay the first two
        return Corpus(
            numbers.astype(np.int32),
            np.concatenate([[0], np.cumsum(lengths[wanted])]).astype(np.int64),
            tuple(self.types[k] for k in types),
            self.characters[types],
            np.append(np.flatnonzero(np.diff(document, prepend=-1)), len(document)),
        )

    def sample_evenly(self, n_tokens: int) -> Corpus:
        """Sentences from the whole text, of about `n_tokens` tokens; all if there are fewer."""
        every = max(1, round(self.n_tokens / n_tokens))
        return self.select(np.arange(self.n_sentences) % every == 0)

    def counts(self) -> Int64Array:
        """How often each type is a token of the text, sentence borders not counted, (type,)."""
        counts = np.bincount(self.tokens, minlength=len(self.types))
        counts[:2] -= self.n_sentences
        return counts

    def vocabulary(
        self,
        *,
        min_count: int = 1,
        max_types: int | None = None,
        warn: Callable[[str], None] = lambda warning: None,
    ) -> Vocabulary:
        """The vocabulary of the text, as `TypeCounts.vocabulary` makes it.

        Args:
            warn: called where types are left out that no vocabulary file can hold.
        Raises:
            UsageError, InputError: there would be no type in it.
        """
        counts = Counter(dict(zip(self.types, self.counts().tolist(), strict=True)))
        found = TypeCounts(counts, self.n_sentences)
        vocabulary = found.vocabulary(min_count=min_count, max_types=max_types)
        if found.warning:
            warn(found.warning)
        return vocabulary

    def predicted_counts(self, vocabulary: Vocabulary) -> npt.NDArray[np.float64]:
        """How often each id is to be predicted, mean of both directions: (id,) float64."""
        ids, counts = self.ids(vocabulary), np.zeros(len(vocabulary))
        np.add.at(counts, ids, self.counts())
        counts[[vocabulary.begin, vocabulary.end]] += self.n_sentences / 2
        return counts

    def ids(self, vocabulary: Vocabulary) -> Int64Array:
        """The id of each distinct type in a vocabulary, (type,) int64."""
        return np.asarray([vocabulary.id(token) for token in self.types], np.int64)


def save_corpora(path: Path, train: Corpus, heldout: Corpus | None) -> None:
    """Write both texts of a run as numbers: 1.4 to 1.7 bytes per token; or OutputError."""
    arrays = {"version": np.asarray(_VERSION), **_arrays("train", train)}
    if heldout is not None:
        arrays |= _arrays("heldout", heldout)
    with new_file(path, durable=True) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_corpora(path: Path, *, max_characters: int) -> tuple[Corpus, Corpus | None]:
    """Read what `save_corpora` has written.

    Args:
        max_characters: ids that the model reads per token.
    Raises:
        ResumeError: the file is missing, corrupt or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # NumPy does not always reach the checksums
            if corrupt := archive.testzip():
                raise ValueError(f"corrupt at {corrupt}")
        with np.load(path, allow_pickle=False) as arrays:
            if arrays["version"] != _VERSION:
                raise ValueError(f"version {arrays['version']}, not {_VERSION}")
            train = _corpus(arrays, "train", max_characters)
            has_heldout = "heldout-types" in arrays
            return train, _corpus(arrays, "heldout", max_characters) if has_heldout else None
    except Exception as error:  # NumPy, zipfile and json raise a dozen types
        reason = (str(error) or type(error).__name__).splitlines()[0]
        what = f"{path}: not the text of a run ({reason})"
        raise ResumeError(what, "without this file `resume` reads the texts again") from None


def _arrays(name: str, corpus: Corpus) -> dict[str, npt.NDArray[Any]]:
    """Arrays that compress well: byte by byte of all token numbers."""
    tokens = np.ascontiguousarray(corpus.tokens.astype("<i4").view(np.uint8).reshape(-1, 4).T)
    types = json.dumps(corpus.types).encode("ascii")
    return {
        f"{name}-tokens": tokens,
        f"{name}-lengths": np.diff(corpus.starts).astype("<i4"),
        f"{name}-types": np.frombuffer(types, np.uint8),
        f"{name}-documents": corpus.documents.astype("<i8"),
    }


def _corpus(arrays: Mapping[str, npt.NDArray[Any]], name: str, max_characters: int) -> Corpus:
    types = tuple(json.loads(arrays[f"{name}-types"].tobytes()))
    tokens = np.ascontiguousarray(arrays[f"{name}-tokens"].T).view("<i4").ravel().astype(np.int32)
    starts = np.append(0, np.cumsum(arrays[f"{name}-lengths"], dtype=np.int64))
    if not 0 <= tokens.min() <= tokens.max() < len(types) or starts[-1] != len(tokens):
        raise ValueError(f"the arrays of {name} contradict each other")
    characters = CharacterIds(max_characters).tokens(types).astype(np.int16)
    return Corpus(tokens, starts, types, characters, arrays[f"{name}-documents"].astype(np.int64))


def overlap(heldout: Corpus, train: Corpus, report: InputReport) -> float:
    """The fraction of held-out sentences that are in the training text; warns if it is large."""
    hashes = list(_sentence_hashes(heldout))
    of_heldout = set(hashes)  # the smaller text
    in_both = of_heldout.intersection(_sentence_hashes(train))
    fraction = sum(content in in_both for content in hashes) / heldout.n_sentences
    if fraction > _LARGE_OVERLAP:
        report.warn(
            "shared",
            f"{fraction:.0%} of the held-out sentences are in the training text too; "
            "figures on them say little about new text",
        )
    return fraction


def _sentence_hashes(corpus: Corpus) -> Iterator[int]:
    type_hashes = np.asarray([hash(token) for token in corpus.types], np.int64)
    content = type_hashes[corpus.tokens]
    return (hash(content[a:b].tobytes()) for a, b in pairwise(corpus.starts.tolist()))
