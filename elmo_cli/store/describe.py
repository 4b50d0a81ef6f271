"""describe: the facts of an embeddings file, an unfinished one, or a weight file."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.errors import EmbeddingsFileError, OutputError, ResumeError
from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.datasets import NumberedSentences
from elmo_cli.store.finished import finished_facts
from elmo_cli.store.journal import journal_path, read_journal
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.recognise import open_hdf5
from elmo_cli.weightfile.describe import describe_weights, kind_of_weights

N_SAMPLES = 3


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The facts of a file; reads no arrays.

    Returns:
        with `kind`:
        "embeddings": path, bytes, layout, complete (None for files without end marks), sentences,
            tokens (None where nobody counted), n_layers, dim, dtype, sentence_map, sources,
            attributes, samples (key and shape of the first few sentences);
        "unfinished", for OUT.part: path, bytes, sentences and tokens that are committed, settings,
            and only_unnamed, whether it is whole but for its name;
        "weights": see `describe_weights`.
    Raises:
        EmbeddingsFileError: neither of these; says what it is instead.
        ResumeError: the journal of an unfinished file is damaged.
    """
    place = Path(path)
    if is_part(place):
        return _unfinished(place)
    with damage_as_error(place, keys_of_file=True):
        with open_hdf5(place) as file:
            if kind_of_weights(file):
                return describe_weights(place, file)
        with Embeddings(place) as embeddings:
            return _embeddings(embeddings)


def is_part(path: Path) -> bool:
    """Whether a path is that of an unfinished file, which may be no sound HDF5.

    It is called FILE.part, and so may be a finished one, which has an end mark and no journal.
    """
    if not path.name.endswith(".part"):
        return False
    if not journal_path(path).exists():
        with suppress(ResumeError, OutputError):
            return not finished_facts(str(path))
    return True


def _embeddings(embeddings: Embeddings) -> dict[str, Any]:
    attributes, sentences = embeddings.attributes, embeddings.sentences
    has_map = isinstance(sentences, NumberedSentences) and sentences.has_map
    return {
        "kind": "embeddings",
        "path": str(embeddings.path),
        "bytes": embeddings.path.stat().st_size,
        "layout": embeddings.layout,
        "complete": True if "elmo_schema" in attributes else None,
        "sentences": len(embeddings),
        "tokens": attributes.get("tokens"),
        "n_layers": embeddings.n_layers,
        "dim": embeddings.dim,
        "dtype": str(embeddings.stored_dtype or attributes.get("dtype")),
        "sentence_map": has_map,
        "sources": attributes.get("sources"),
        "attributes": attributes,
        "samples": [
            {"key": key, "shape": list(embeddings.shape(key))}
            for key in islice(embeddings, N_SAMPLES)
        ],
    }


def _unfinished(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        journal = read_journal(path)
    except OSError as error:
        raise EmbeddingsFileError(f"{path}: {error.strerror}", "check the name") from None
    return {
        "kind": "unfinished",
        "path": str(path),
        "bytes": size,
        "sentences": journal.sentences if journal and size else 0,
        "tokens": journal.tokens if journal and size else 0,
        "settings": journal.settings if journal else {},
        "only_unnamed": bool(journal and size and journal.finished),
    }
