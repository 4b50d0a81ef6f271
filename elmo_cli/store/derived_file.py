"""write_derived_file: an embeddings file from the sentences of other files, in one step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath, check_output_path, lock_own, output_errors, publish, resolve
from elmo_cli.store.digests import tokens_digest
from elmo_cli.store.layouts import UniqueNames, ValueSink, layout_of_spec
from elmo_cli.store.output_file import new_output_file, write_values
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def write_derived_file(
    out: StrPath,
    spec: FileSpec,
    sentences: Iterable[tuple[Sentence, AnyArray]],
    attributes: Mapping[str, Any],
    *,
    n_rows: int,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write sentences of other files into one, by way of OUT.tmp, which the next run replaces.

    Args:
        n_rows: of all vectors: types, sentences of a pooled file, or tokens.
    Returns:
        output, layout, dtype, sentences, tokens, bytes, sentence_map.
    """
    check_output_path(out, overwrite=overwrite, regular=True)
    temporary = Path(f"{resolve(out)}.tmp")
    with output_errors(out):
        lock = lock_own(temporary, _HDF5_SIGNATURE)
        try:

            def put(address: int, values: AnyArray) -> None:
                write_values(lock.descriptor, values, address)

            _write(temporary, spec, sentences, attributes, ValueSink(n_rows, put))
            os.fsync(lock.descriptor)
            publish(temporary, out, overwrite=overwrite, hint="`overwrite=True` replaces it")
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            lock.release()
    with Embeddings(out) as written:
        return {
            "output": os.fspath(out),
            "layout": written.layout,
            "dtype": spec.dtype,
            "sentences": len(written),
            "tokens": written.attributes["tokens"],
            "bytes": Path(out).stat().st_size,
            "sentence_map": written.reader.has_map,
        }


def _write(
    path: Path,
    spec: FileSpec,
    sentences: Iterable[tuple[Sentence, AnyArray]],
    attributes: Mapping[str, Any],
    sink: ValueSink,
) -> None:
    layout = layout_of_spec(spec)
    names = UniqueNames(layout)
    with new_output_file(path, spec, sink) as output:
        for sentence, array in sentences:
            output.add_token_digests(tokens_digest(sentence.tokens))
            if names.add(sentence):
                output.add(layout.store(sentence, array, spec))
        output.finish(attributes)
