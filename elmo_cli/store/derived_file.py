"""write_derived_file: an embeddings file from the sentences of other files, in one step.

The suffix of its name decides the format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_cli.arrays import AnyArray
from elmo_cli.file_locks import lock_own
from elmo_cli.files import StrPath, check_output_path, output_errors, publish, resolve
from elmo_cli.store.digests import tokens_digest
from elmo_cli.store.file_formats import NewFile, format_of_output
from elmo_cli.store.intact_sentence import IntactSentence
from elmo_cli.store.layouts import (
    Layout,
    StoredSentence,
    UniqueNames,
    ValueSink,
    has_layers,
    layout_of_spec,
)
from elmo_cli.store.output_file import new_output_file, write_values
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import DTYPES, FileSpec


@dataclass(frozen=True)
class DerivedFile:
    """What `write_derived_file` has written.

    Attributes:
        output: its path.
        n_sentences, n_tokens: those that it stores.
        n_bytes: its size.
        has_sentence_map: whether it maps sentences to keys.
        lacks_equal_lines: whether the sentence map has one entry for several equal sentences.
    """

    output: str
    layout: str
    dtype: str
    n_sentences: int
    n_tokens: int
    n_bytes: int
    has_sentence_map: bool
    lacks_equal_lines: bool


def write_derived_file(
    out: StrPath,
    spec: FileSpec,
    sentences: Iterable[IntactSentence],
    attributes: Mapping[str, Any],
    *,
    n_rows: int,
    preview: Iterable[IntactSentence] = (),
    overwrite: bool = False,
    compression: str = "none",
) -> DerivedFile:
    """Write sentences of other files into one, by way of OUT.tmp, which the next run replaces.

    Args:
        n_rows: of all vectors: types, sentences of a pooled file, or tokens.
        preview: the sentences once more. For layouts that may leave some out, they are read first,
            to count the bytes to store: the file then has the bytes of one that `embed` writes.
        compression: one of those of the format.
    """
    file_format = format_of_output(out)
    file_format.check(spec.dtype, compression)
    check_output_path(out, overwrite=overwrite, regular=True)
    temporary = Path(f"{resolve(out)}.tmp")
    with output_errors(out):
        lock = lock_own(temporary, file_format.signature)
        try:

            def put(address: int, values: AnyArray) -> None:
                write_values(lock.descriptor, values, address)

            new_file: AbstractContextManager[NewFile]
            if file_format.module:
                new_file = file_format.load().new_output_file(temporary, spec, compression)
            else:
                n_bytes = 0
                if layout_of_spec(spec).keeps_first:
                    n_bytes = _count_bytes(preview, spec)
                else:
                    first, sentences = _peek(sentences)
                    if first is not None:
                        n_bytes = _value_bytes(first, n_rows, spec)
                new_file = new_output_file(temporary, spec, ValueSink(n_rows, put, n_bytes))
            with new_file as output:
                _write(output, spec, sentences, attributes)
            lacks_equal_lines = (
                output.line_check is not None and output.line_check.lacks_equal_lines
            )
            os.fsync(lock.descriptor)
            publish(temporary, out, overwrite=overwrite, hint="`overwrite=True` replaces it")
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            lock.release()
    with Embeddings(out) as written:
        return DerivedFile(
            output=os.fspath(out),
            layout=written.layout,
            dtype=spec.dtype,
            n_sentences=len(written),
            n_tokens=written.attributes["tokens"],
            n_bytes=Path(out).stat().st_size,
            has_sentence_map=written.reader.has_map,
            lacks_equal_lines=lacks_equal_lines,
        )


def _peek(
    sentences: Iterable[IntactSentence],
) -> tuple[AnyArray | None, Iterable[IntactSentence]]:
    """The first array, None if there is none; and all sentences, the first one included."""
    iterator = iter(sentences)
    first = next(iterator, None)
    if first is None:
        return None, iterator
    return first.array, chain([first], iterator)


def _value_bytes(array: AnyArray, n_rows: int, spec: FileSpec) -> int:
    """The bytes of all values of a file, from one of its arrays."""
    n_layers = array.shape[0] if has_layers(array, pooled=spec.pooled) else 1
    dim: int = array.shape[-1]
    return n_rows * n_layers * dim * DTYPES[spec.dtype].itemsize


def _count_bytes(preview: Iterable[IntactSentence], spec: FileSpec) -> int:
    """The bytes of the values of those sentences that are stored."""
    names = UniqueNames(layout_of_spec(spec))
    n_values = 0
    for read in preview:
        if names.add(read.sentence):
            n_values += read.array.size
    return n_values * DTYPES[spec.dtype].itemsize


def _write(
    output: NewFile,
    spec: FileSpec,
    sentences: Iterable[IntactSentence],
    attributes: Mapping[str, Any],
) -> None:
    layout = layout_of_spec(spec)
    names = UniqueNames(layout)
    # The digests that a file has of its own count the sentences that it leaves out.
    has_digests = "token_digests" in attributes and not layout.keeps_first
    for read in sentences:
        sentence = read.sentence
        if not has_digests:
            output.add_token_digests(tokens_digest(sentence.tokens))
        if names.add(sentence):
            stored = _stored_alike(read, layout, spec)
            if stored is None:
                stored = layout.store(sentence, read.array, spec)
            output.add(stored)
    output.finish(attributes)


def _stored_alike(read: IntactSentence, layout: Layout, spec: FileSpec) -> StoredSentence | None:
    """The sentence as its own file holds it; None if the new file holds it in another way."""
    if read.stored is None or read.stored.values.dtype != DTYPES[spec.dtype]:
        return None
    is_valid = layout.holds(read.array, len(read.sentence.tokens), pooled=spec.pooled)
    return read.stored if is_valid else None
