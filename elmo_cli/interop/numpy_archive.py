"""Write the arrays of an embeddings file to a .npz archive, for `numpy.load`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from elmo_cli.embed.stream_formats import archive_writer
from elmo_cli.files import StrPath, check_distinct, check_output_path, new_file
from elmo_cli.store.convert import selected_sentences
from elmo_cli.store.file_formats import NPZ
from elmo_cli.store.reader import Embeddings


def write_archive(
    path: StrPath,
    out: StrPath,
    *,
    dtype: str | None = None,
    layers: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write one array per key, as `elmo embed -o - --output-format npz` does.

    Args:
        dtype: float32 or float16; by default that of the arrays of `open_embeddings`.
        layers: as `LayerSelection.parse` takes it.
    Returns:
        output, sentences, bytes.
    Raises:
        UsageError: the file has no such layers, or .npz does not store the dtype.
        EmbeddingsFileError: it can't be read, or a sentence does not match its checksum.
        OutputError: `out` can't be written, or a value is beyond the dtype.
    """
    check_distinct(os.fspath(out), [os.fspath(path)])
    if dtype is not None:
        NPZ.check(dtype)
    check_output_path(out, overwrite=overwrite, regular=True)
    with Embeddings(path) as source:
        keys = iter(source)
        n_sentences = 0
        sentences = selected_sentences(source, layers, dtype)
        with new_file(out, overwrite=overwrite) as file, archive_writer(file) as write:
            for key, array in zip(keys, sentences, strict=True):
                write(str(key), array)
                n_sentences += 1
    n_bytes = Path(out).stat().st_size
    return {"output": os.fspath(out), "sentences": n_sentences, "bytes": n_bytes}
