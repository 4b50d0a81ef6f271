"""Convert a model of any family to a model folder, which bilm-tf, AllenNLP and others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import ModelError
from elmo_cli.files import StrPath, new_file, os_errors_as, write_text
from elmo_cli.lm.language_model import (
    read_own_softmax,
    softmax_of,
    write_options,
)
from elmo_cli.lm.new_model_folder import new_model_folder
from elmo_cli.model.bilm import BiLM
from elmo_cli.model_folder import (
    OPTIMIZER_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.load import ModelSource, load_files, locate
from elmo_cli.pretrained.model_files import (
    CARD_FILE,
    ModelFiles,
    check_parts,
    check_vocabulary_size,
    find_files,
    write_parts,
)
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.write import write_accumulators, write_bilm, write_softmax, write_state

_MOST_CARD_BYTES = 1 << 20  # a longer README.md is no card


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """A model folder that was written.

    Attributes:
        family: of the source, with an article.
        sha256: of the converted model, as `model_sha256` in an embeddings file. It is that of the
            source, unless the dtype has rounded a weight.
        n_parameters: of the biLM.
        n_types: of the softmax layer; 0 if the source has none.
        has_vocabulary: whether vocab.txt was written.
        has_optimizer_state: whether optimizer.hdf5 was written.
        has_card: whether README.md was written.
        assumed: the options that the source does not state, by their paths in an options.json.
        is_read_by_others: whether bilm-tf and AllenNLP read such a model too.
        warning: parts of the source may be of another model, see `check_parts`; "" if not.
    """

    family: str
    sha256: str
    n_parameters: int
    n_types: int
    has_vocabulary: bool
    has_optimizer_state: bool
    has_card: bool
    assumed: Mapping[str, Any]
    is_read_by_others: bool
    warning: str


def write_converted(
    source: ModelSource | StrPath,
    output: Path,
    *,
    dtype: str = "float32",
    optimizer_state: bool = False,
    card: bool = False,
) -> ConvertedModel:
    """Write a model as a folder with options.json, weights.hdf5 and parts.json.

    The folder also contains softmax.hdf5, vocab.txt, state.hdf5 and the dictionaries of characters
    and words, as far as the model has them.

    Args:
        output: a folder that is new or empty, or that a killed process was filling.
        dtype: of the weights and of the softmax layer, "float32" or "float16".
        optimizer_state: also write the accumulators of Adagrad, with which `finetune` continues.
        card: also copy README.md, if there is one next to the weights.
    Raises:
        ModelError, OptionsError, WeightFileError: as `load`; also for a vocabulary of another size,
            and for a model without the state that `optimizer_state` asks for.
        InputError: the vocabulary cannot be read.
        OutputError: as `new_model_folder`; or `dtype` can't hold a value.
    """
    files = locate(source)
    with files.open() as model:
        assumed = model.assumed
        dictionaries = model.dictionaries
    warning = check_parts(files, _parts_to_write(files, optimizer_state=optimizer_state))
    n_types = _n_types(files)
    if optimizer_state:
        _check_optimizer_state(files, n_types)
    with new_model_folder(output, reads=files.weights.parent):
        bilm = load_files(files)
        write_options(bilm.options, output)
        for name, dictionary in dictionaries.items():
            write_text(output / name, [dictionary.text], durable=True)
        if n_types:
            _write_softmax(files, bilm, output, n_types, dtype)
        has_vocabulary = _write_vocabulary(files, output)
        has_card = card and _copy_card(files, output)
        if bilm.warm_state is not None:
            write_state(bilm.warm_state, output / STATE_FILE)
        if optimizer_state:
            _write_optimizer_state(files, output, n_types)
        write_bilm(bilm, output / WEIGHTS_FILE, dtype=dtype)
        is_exact = _is_exact(bilm, dtype)
        write_parts(output, tensors=files.identity if is_exact else "")
    return ConvertedModel(
        family=files.family.name,
        sha256=bilm.sha256 if is_exact else find_files(output).sha256,
        n_parameters=sum(values.numel() for values in bilm.parameters()),
        n_types=n_types,
        has_vocabulary=has_vocabulary,
        has_optimizer_state=optimizer_state,
        has_card=has_card,
        assumed=assumed,
        is_read_by_others=not bilm.options.is_unicode,
        warning=warning,
    )


def _parts_to_write(files: ModelFiles, *, optimizer_state: bool) -> dict[str, Path | None]:
    """The files that are written again as parts of the new model, by their names in parts.json."""
    parts = {
        "softmax": files.softmax,
        "vocabulary": files.vocabulary,
        "state": files.warm_state,
    }
    if optimizer_state:
        parts["optimizer"] = files.optimizer_state
    return parts


def _n_types(files: ModelFiles) -> int:
    """The number of types that a model predicts, 0 if it has no softmax layer.

    Raises:
        ModelError: the vocabulary next to it has another number.
    """
    shape = files.softmax_shape()
    if shape is None:
        return 0
    n_types = shape[0]
    if files.vocabulary is not None:
        n_lines = len(Vocabulary.read(files.vocabulary))
        check_vocabulary_size(files.vocabulary, n_lines, n_types)
    return n_types


def _is_exact(bilm: BiLM, dtype: str) -> bool:
    """Whether a dtype holds every weight unchanged, as float16 does if the source has float16."""
    if dtype == "float32":
        return True
    return all(torch.equal(values, values.half().float()) for values in bilm.parameters())


def _write_softmax(files: ModelFiles, bilm: BiLM, output: Path, n_types: int, dtype: str) -> None:
    path = softmax_of(files)
    assert path is not None
    softmax = read_own_softmax(path, files, bilm.options, n_types=n_types)
    write_softmax(softmax, output / SOFTMAX_FILE, dtype=dtype)


def _check_optimizer_state(files: ModelFiles, n_types: int) -> None:
    """Refuse a model without accumulators of Adagrad, or without a softmax layer.

    Fine-tuning continues with the accumulators only if it has those of the softmax layer too.
    """
    with files.open() as model:
        has_state = model.optimizer == "adagrad" and n_types > 0
    if not has_state:
        problem = "has no accumulators of Adagrad with a softmax layer"
        hint = "leave out `optimizer_state`; checkpoints of bilm-tf have them"
        raise ModelError(problem, hint, where=files.weights, parameters=("optimizer_state",))


def _write_optimizer_state(files: ModelFiles, output: Path, n_types: int) -> None:
    """Write the accumulators of Adagrad."""
    with files.open() as model:
        write_accumulators(
            dict(model.accumulators(n_types)),
            model.options,
            output / OPTIMIZER_FILE,
            loss_tokens=model.loss_tokens,
        )


def _write_vocabulary(files: ModelFiles, output: Path) -> bool:
    """Write the types of the vocabulary; return whether there is one."""
    if files.vocabulary is None:
        return False
    Vocabulary.read(files.vocabulary).write(output / VOCABULARY_FILE)
    return True


def _copy_card(files: ModelFiles, output: Path) -> bool:
    """Copy the card next to the weights; return whether there is one.

    Raises:
        ModelError: it cannot be read.
    """
    path = files.weights.with_name(CARD_FILE)
    if not path.is_file():
        return False
    hint = "make it readable, or remove it"
    with os_errors_as(ModelError, path, "cannot be read", hint), open(path, "rb") as source:
        content = source.read(_MOST_CARD_BYTES + 1)
    if len(content) > _MOST_CARD_BYTES:
        return False
    with new_file(output / CARD_FILE, durable=True) as file:
        file.write(content)
    return True
