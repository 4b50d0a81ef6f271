"""Checkpoints of bilm-tf: the files that TensorFlow's Saver writes, with their options.json.

A checkpoint also contains the softmax layer and, for each variable, an accumulator of Adagrad. The
graph in PREFIX.meta is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from elmo_cli.errors import ModelError, OptionsError
from elmo_cli.families.array_names import TENSORFLOW_LSTM_ARRAYS, ArrayNames, RenamedArrays
from elmo_cli.families.assumed_options import options_and_assumed
from elmo_cli.families.family import ArraysModel, Family
from elmo_cli.families.hdf5_weights import possible_weights
from elmo_cli.families.model_paths import (
    NAME_OPTIONS,
    ModelPaths,
    find_file,
    find_vocabulary,
    listed,
)
from elmo_cli.families.refused_models import refuse_other_models
from elmo_cli.families.sizes_of_shapes import unstated_settings
from elmo_cli.families.sorted_table import TABLE_MAGIC
from elmo_cli.families.tensor_bundle import INDEX_SUFFIX, TensorBundle
from elmo_cli.model_folder import OPTIONS_FILE
from elmo_cli.regular_files import read_json
from elmo_cli.weightfile.table import LOSS_TOKENS

CHECKPOINT_LIST = "checkpoint"  # the file that names the newest checkpoint of a folder
_ADAGRAD = "/Adagrad"  # ends the names of the accumulators
_FILE_OF_CHECKPOINT = re.compile(r"(.+)\.(?:index|meta|data-\d{5}-of-\d{5})")
_NEWEST = re.compile(rb'^model_checkpoint_path: "(?:[^"\n]*/)?([^"/\n]+)"$', re.MULTILINE)
_MAX_LIST_BYTES = 1 << 20

_MORE_LAYERS = ArrayNames(
    prefix="lm/",
    lstm="RNN_{direction}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell/{array}",
    lstm_arrays=TENSORFLOW_LSTM_ARRAYS,
)
_ONE_LAYER = ArrayNames(
    prefix="lm/",
    lstm="RNN_{direction}/rnn/lstm_cell/{array}",
    lstm_arrays=TENSORFLOW_LSTM_ARRAYS,
)


class TfCheckpoint(Family):
    """Checkpoints of bilm-tf."""

    key = "tf-checkpoint"
    name = "a TensorFlow checkpoint"
    usual_files = f"{OPTIONS_FILE}, PREFIX.index and PREFIX.data-*"
    members = r"checkpoint|[^./][^/]*\.ckpt[^/]*\.(index|data-\d{5}-of-\d{5})"

    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find a checkpoint by its folder, by what the names of its files begin with, or by one of
        its files."""
        notes: tuple[str, ...] = ()
        if path.is_dir():
            prefix = _prefix_in_folder(path)
            notes = _notes(path, prefix)
        elif path.name == CHECKPOINT_LIST and path.is_file():
            prefix = _prefix_in_folder(path.parent)
        else:
            prefix = _prefix_of_file(path)
        if prefix is None:
            return None
        folder = prefix.parent
        if options is None:
            options = find_file(folder, (OPTIONS_FILE,), "*options*.json")
        return ModelPaths(
            name=prefix.resolve().parent.name,
            options=options,
            weights=_index_of(prefix),
            others=tuple(_data_files(prefix)),
            vocabulary=find_vocabulary(folder),
            notes=notes,
        )

    @contextmanager
    def open(self, paths: ModelPaths, *, verify: bool = True) -> Iterator[ArraysModel]:
        """Open a checkpoint, and refuse what is not a biLM of characters."""
        bundle = TensorBundle(paths.weights, verify=verify)
        refuse_other_models(bundle, "lm/")
        _refuse_other_programs(bundle)
        names = _names_in(bundle)
        arrays = RenamedArrays(bundle, names)
        if paths.options is None:
            problem = f"no {OPTIONS_FILE} next to it"
            hint = f"copy the {OPTIONS_FILE} of its training into its folder, or {NAME_OPTIONS}"
            raise unstated_settings(arrays, where=paths.weights, hint=hint, problem=problem)
        options, assumed = options_and_assumed(paths.options)
        model = ArraysModel(options, arrays, assumed)
        accumulators = RenamedArrays(bundle.of_any_size(), replace(names, suffix=_ADAGRAD))
        if accumulators.shape("char_embed") is not None:
            model.optimizer = "adagrad"
            model.loss_tokens = _unroll_steps(paths.options)
            model.open_accumulators = lambda: nullcontext(accumulators)
        yield model


def _unroll_steps(options: Path) -> int:
    """The number of tokens in a window of the training, over which bilm-tf sums the loss."""
    hint = "give the options.json of the training"
    content = read_json(options, OptionsError, hint)
    steps = content.get("unroll_steps", LOSS_TOKENS)
    if type(steps) is not int or not 0 < steps < 1_000_000:
        raise OptionsError(f"unroll_steps is {steps!r}, not a whole number", hint, where=options)
    return steps


def _prefix_of_file(path: Path) -> Path | None:
    """The prefix of the checkpoint that a path names, None if there is none."""
    stems = [path.name]
    match = _FILE_OF_CHECKPOINT.fullmatch(path.name)
    if match is not None:
        stems.append(match[1])
    for stem in stems:
        prefix = path.with_name(stem)
        if _index_of(prefix).is_file():
            return prefix
    if path.is_file():
        _refuse_v1(path)
    return None


def _prefix_in_folder(folder: Path) -> Path | None:
    """The prefix of the newest checkpoint of a folder; None if it has none.

    Raises:
        ModelError: there are several, and no file says which of them is meant.
    """
    prefixes = []
    for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
        prefix = index.with_name(index.name.removesuffix(INDEX_SUFFIX))
        if ".ckpt" in prefix.name or _data_files(prefix):
            prefixes.append(prefix)
    newest = _newest(folder)
    if newest is not None:
        if newest in prefixes:
            return newest
        if newest.is_file():
            _refuse_v1(newest)
    if len(prefixes) > 1:
        names = [prefix.name for prefix in prefixes]
        problem = f"contains {len(prefixes)} checkpoints ({listed(names)})"
        raise ModelError(problem, f"name one of them, such as {prefixes[-1]}", where=folder)
    return prefixes[0] if prefixes else None


def _newest(folder: Path) -> Path | None:
    """The prefix that the file `checkpoint` names, in this folder: the path in it is that of the
    machine on which the model was trained."""
    path = folder / CHECKPOINT_LIST
    if not path.is_file():
        return None
    with open(path, "rb") as file:
        match = _NEWEST.search(file.read(_MAX_LIST_BYTES))
    return None if match is None else folder / match[1].decode("utf-8", "replace")


def _notes(folder: Path, prefix: Path | None) -> tuple[str, ...]:
    """Say which of several models in a folder is read."""
    if prefix is None:
        return ()
    notes = []
    newest = _newest(folder)
    if newest is not None and newest != prefix:
        problem = f"the newest checkpoint, {newest.name}, is not in the folder"
        notes.append(f"{folder}: {problem}; {prefix.name} is read")
    others = possible_weights(sorted(file.name for file in folder.iterdir()))
    if others:
        notes.append(f"{folder}: the checkpoint {prefix.name} is read, and not {others[0]}")
    return tuple(notes)


def _data_files(prefix: Path) -> list[Path]:
    pattern = re.compile(re.escape(prefix.name) + r"\.data-\d{5}-of-\d{5}")
    return sorted(path for path in prefix.parent.iterdir() if pattern.fullmatch(path.name))


def _index_of(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + INDEX_SUFFIX)


def _refuse_v1(path: Path) -> None:
    """Raise a ModelError for a checkpoint in the format before TensorFlow 0.12.

    It is a single file, a sorted table like the index of the later format.
    """
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - len(TABLE_MAGIC)))
        is_table = file.read() == TABLE_MAGIC
    if is_table:
        problem = "a TensorFlow V1 checkpoint (one file, without .index), which is not read"
        hint = "save it again with TensorFlow 1.0 or later: `Saver(write_version=V2)`"
        raise ModelError(problem, hint, where=path)


def _refuse_other_programs(bundle: TensorBundle) -> None:
    """Raise a ModelError for a checkpoint that bilm-tf has not written."""
    if bundle.shape("lm/char_embed") is None:
        n_names = len(bundle.names)
        problem = f"has no variable lm/char_embed among {n_names}, so bilm-tf did not write it"
        hint = "give a checkpoint of bilm-tf; `elmo models list` shows published models"
        raise ModelError(problem, hint, where=bundle.where)


def _names_in(bundle: TensorBundle) -> ArrayNames:
    """The names of the variables, which are others in a model of one layer."""
    is_one_layer = bundle.shape("lm/RNN_0/rnn/lstm_cell/kernel") is not None
    return _ONE_LAYER if is_one_layer else _MORE_LAYERS
