"""Usages of target words: found in a text, sampled, and embedded in their sentences."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from random import Random
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np

from elmo_cli.analysis.usage_settings import UsageSettings
from elmo_cli.arrays import Float32Array
from elmo_cli.embed.stream_formats import archive_writer
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_output_path, new_file, resolve
from elmo_cli.messages import quoted_line
from elmo_cli.store.layers import LayerSelection
from elmo_cli.text.column_format import Column, Columns
from elmo_cli.text.conll import CONLLU_COLUMNS
from elmo_cli.text.input import InputReport, check_inputs, format_of, read_sentences
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.target_matcher import TargetMatcher, Usage

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

_SUFFIX = ".npz"
_TABLE_SUFFIX = ".tsv"
_TABLE_COLUMNS = ("target", "row", "key", "position", "sentence")
_LEMMA = CONLLU_COLUMNS.index("lemma") + 1


@dataclass(frozen=True)
class UsageSentence:
    """A sentence with at least one usage of a target word."""

    sentence: Sentence
    usages: list[Usage]


@dataclass(frozen=True)
class UsageSample:
    """Usages that were drawn from a text.

    Attributes:
        sentences: those with a usage that was drawn, in the order of the text.
        n_occurrences: the number of usages of each target in the text.
    """

    sentences: list[UsageSentence]
    n_occurrences: list[int]


@dataclass(frozen=True)
class WrittenUsages:
    """The numbers of usages and sentences that were written.

    Attributes:
        n_usages: the number of usages of each target.
        n_sentences: the number of sentences that were embedded.
    """

    n_usages: list[int]
    n_sentences: int


def check_layers(layers: str, n_layers: int) -> None:
    """Raise a UsageError for a choice of layers that gives a token more than one vector.

    Args:
        layers: as `LayerSelection.parse` takes it.
        n_layers: layers of the model, layer 0 included.
    """
    selection = LayerSelection.parse(layers, range(n_layers), n_layers)
    if selection.n_kept != 1:
        hint = "choose `layers=top`, `layers=average`, `layers=sum` or one number"
        raise UsageError("a usage has one vector", hint, where=f"`layers={selection.name}`")


def check_usages_path(out: str, *, overwrite: bool) -> str:
    """Check that the output and its table can be written; return the path of the table.

    Raises:
        OutputError: its suffix is not .npz, or one of the two files can't be written.
    """
    if Path(out).suffix.lower() != _SUFFIX:
        raise OutputError("usages are written as .npz", "name a file that ends in .npz", where=out)
    table = str(Path(out).with_suffix(_TABLE_SUFFIX))
    for path in (out, table):
        check_output_path(path, overwrite=overwrite, regular=True)
    return table


def check_lemmas(paths: Sequence[str], settings: InputSettings) -> None:
    """Raise a UsageError for a file without a column of lemmas."""
    for path in check_inputs(paths, settings):
        text_format = format_of(path, settings)
        if text_format != "conllu":
            problem = f"{path} is {text_format}, which has no column of lemmas"
            hint = "give CoNLL-U, with another suffix and `format='conllu'`"
            raise UsageError(problem, hint, where="`match=lemma`")


def find_usages(
    paths: Sequence[str],
    matcher: TargetMatcher,
    settings: InputSettings,
    report: InputReport,
    *,
    by_lemma: bool = False,
) -> Iterator[UsageSentence]:
    """Yield the sentences of text files that have a usage, in order.

    Args:
        report: receives what `read_sentences` reports, and a warning if no token has a lemma.
        by_lemma: compare with the lemmas of CoNLL-U, not with the tokens.
    Raises:
        UsageError, InputError: those of `read_sentences` and `check_lemmas`.
    """
    columns = None
    if by_lemma:
        check_lemmas(paths, settings)
        tokens = Column(settings.column, "column")
        columns = Columns(tokens=tokens, labels=Column(_LEMMA, "match"))
    has_lemmas = not by_lemma
    for sentence in read_sentences(paths, settings, report, columns=columns):
        if not has_lemmas:
            has_lemmas = set(sentence.labels) != {"_"}
        words = sentence.labels if by_lemma else sentence.tokens
        usages = matcher.usages(words)
        if usages:
            yield UsageSentence(sentence, usages)
    if not has_lemmas and report.n_keys:
        message = "the column of lemmas has only `_`; `match=form` compares with the tokens"
        report.warn("no lemmas", f"{paths[0]}: {message}")


def sample_usages(
    sentences: Iterable[UsageSentence], targets: Sequence[str], n_most: int, seed: int
) -> UsageSample:
    """Draw at most `n_most` usages of each target, all with the same probability.

    The usages of a target do not depend on the other targets. Memory holds the sentences of the
    usages that are drawn.

    Source: Vitter 1985, "Random sampling with a reservoir", algorithm R.
    """
    reservoirs = [_Reservoir(Random(f"{seed} {target}"), n_most) for target in targets]
    for number, found in enumerate(sentences):
        for usage in found.usages:
            reservoirs[usage.target].add(_DrawnUsage(number, found.sentence, usage))
    by_number: dict[int, UsageSentence] = {}
    for reservoir in reservoirs:
        for drawn in reservoir.kept:
            if drawn.number not in by_number:
                by_number[drawn.number] = UsageSentence(drawn.sentence, [])
            by_number[drawn.number].usages.append(drawn.usage)
    chosen = [by_number[number] for number in sorted(by_number)]
    for found in chosen:
        found.usages.sort(key=lambda usage: usage.position)
    n_occurrences = [reservoir.n_seen for reservoir in reservoirs]
    return UsageSample(chosen, n_occurrences)


@dataclass(frozen=True)
class _DrawnUsage:
    """A usage in a reservoir, with its sentence."""

    number: int  # of the sentence, among those with a usage
    sentence: Sentence
    usage: Usage


class _Reservoir:
    """A uniform sample of a stream of usages."""

    def __init__(self, rng: Random, n_most: int) -> None:
        self.kept: list[_DrawnUsage] = []
        self.n_seen = 0
        self._rng = rng
        self._n_most = n_most

    def add(self, usage: _DrawnUsage) -> None:
        """Keep a usage, or replace another one by it, or drop it."""
        self.n_seen += 1
        if len(self.kept) < self._n_most:
            self.kept.append(usage)
            return
        index = self._rng.randrange(self.n_seen)
        if index < self._n_most:
            self.kept[index] = usage


def write_usages(
    sentences: Iterable[UsageSentence],
    targets: Sequence[str],
    embedder: Embedder,
    out: str,
    *,
    overwrite: bool = False,
    on_usages: Callable[[int], object] = lambda n_usages: None,
) -> WrittenUsages:
    """Embed sentences and write the vectors of their usages to a .npz file, with a table.

    The file has an array (usage, dim) in float32 for each target, in the order of the text. A row
    of the table, whose suffix is .tsv, is a usage: the target, the row of its vector, the key of
    the sentence, the position of the token, and the tokens of the sentence. The comment of the
    archive records the `UsageSettings`. Vectors are kept in a temporary file in the folder of `out`
    until all are known; the vectors of one target are in memory.

    Args:
        embedder: computes one vector per token.
        on_usages: called with the number of usages of each sentence.
    Raises:
        OutputError: a file can't be written; then neither exists.
    """
    table_path = check_usages_path(out, overwrite=overwrite)
    with (
        new_file(table_path, overwrite=overwrite) as table,
        new_file(out, overwrite=overwrite) as file,
        TemporaryFile(dir=resolve(out).parent) as spool,
    ):
        table.write(quoted_line(*_TABLE_COLUMNS).encode())
        kept = _KeptVectors(spool, len(targets), embedder.bilm.options.dim)
        n_sentences = 0
        # The embedder reads a block of sentences before it yields the first; `tee` keeps them.
        to_embed, to_write = tee(sentences)
        embedded = embedder.stream(found.sentence for found in to_embed)
        for (sentence, vectors), found in zip(embedded, to_write, strict=True):
            text = " ".join(sentence.tokens)
            for target, position in found.usages:
                row = str(kept.add(target, vectors[position]))
                line = quoted_line(targets[target], row, str(sentence.key), str(position), text)
                table.write(line.encode("utf-8", "backslashreplace"))
            n_sentences += 1
            on_usages(len(found.usages))
        comment = UsageSettings.of(embedder).to_comment()
        with archive_writer(file, deflated=True, comment=comment) as write:
            for number, target_name in enumerate(targets):
                write(target_name, kept.read(number))
    return WrittenUsages(kept.n_usages, n_sentences)


class _KeptVectors:
    """The vectors of usages in a temporary file, and which of them are those of each target."""

    def __init__(self, file: IO[bytes], n_targets: int, dim: int) -> None:
        self._file = file
        self._dim = dim
        self._n_vectors = 0
        self._numbers = [array("q") for _ in range(n_targets)]  # of the vectors of each target

    @property
    def n_usages(self) -> list[int]:
        """The number of usages of each target."""
        return [len(numbers) for numbers in self._numbers]

    def add(self, target: int, vector: Float32Array) -> int:
        """Append the vector of a usage; return its row in the array of the target."""
        self._file.write(vector.tobytes())
        row = len(self._numbers[target])
        self._numbers[target].append(self._n_vectors)
        self._n_vectors += 1
        return row

    def read(self, target: int) -> Float32Array:
        """Read the vectors of a target: (usage, dim)."""
        numbers = self._numbers[target]
        if not numbers:
            return np.zeros((0, self._dim), np.float32)
        self._file.flush()
        vectors = np.memmap(self._file, np.float32, "r").reshape(-1, self._dim)
        of_target: Float32Array = vectors[np.frombuffer(numbers, np.int64)]
        return of_target
