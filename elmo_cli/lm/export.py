"""Export of a model folder that `elmo embed`, AllenNLP and bilm-tf can read."""

from __future__ import annotations

import json
from pathlib import Path

from elmo_cli.files import output_errors, write_text
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.model_files import SOFTMAX_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.parts import remove_parts, write_parts
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.write import write_bilm, write_softmax


def export_model(
    folder: Path,
    bilm: BiLM,
    head: NextTokenSoftmax,
    vocabulary: Vocabulary,
    *,
    dtype: str = "float32",
) -> None:
    """Write options.json, weights.hdf5, softmax.hdf5, vocab.txt and parts.json into `folder`.

    Args:
        dtype: type of the stored weights; float16 halves the size of the files.
    Raises:
        OutputError: the folder or one of its files cannot be written.
    """
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    remove_parts(folder)
    write_options(folder, bilm.options)
    vocabulary.write(folder / VOCABULARY_FILE)
    write_softmax(head, folder / SOFTMAX_FILE, dtype=dtype)
    write_bilm(bilm, folder / WEIGHTS_FILE, dtype=dtype)
    write_parts(folder)


def write_options(folder: Path, options: Options) -> None:
    """Write options.json into `folder`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_text(folder / OPTIONS_FILE, [json.dumps(options.to_dict(), indent=2), "\n"])
