"""Weights in HDF5, as bilm-tf and AllenNLP have them, with their options.json.

The weights are weights.hdf5, model.hdf5 (as in the NLPL repository) or the only other HDF5 file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.errors import ModelError
from elmo_cli.families.array_names import ArrayNames, RenamedArrays
from elmo_cli.families.assumed_options import assumed_options
from elmo_cli.families.dictionaries import read_dictionaries
from elmo_cli.families.family import ArraysModel, Family
from elmo_cli.families.model_paths import (
    ModelPaths,
    find_file,
    find_vocabulary,
    head_of,
    listed,
    not_a_model,
    reading,
)
from elmo_cli.families.refused_models import refuse_other_models
from elmo_cli.filetypes import HDF5, identify, identify_foreign_model
from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE, Options
from elmo_cli.model_folder import (
    HDF5_SUFFIXES,
    OPTIMIZER_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.regular_files import sha256_of_file
from elmo_cli.weightfile.named_arrays import LARGEST_SUM
from elmo_cli.weightfile.table import ADAGRAD_GROUP

if TYPE_CHECKING:
    from elmo_cli.weightfile.named_arrays import NamedArrays

_USUAL_WEIGHTS = (WEIGHTS_FILE, "model.hdf5")
# In the weights that bilm-tf writes of a model of one layer, which it cannot read itself.
_ONE_LAYER = ArrayNames(prefix="", lstm="RNN_{direction}/RNN/LSTMCell/{array}")
# The accumulators in optimizer.hdf5 have the names of the weights, within a group.
_ACCUMULATORS = ArrayNames(
    prefix=f"{ADAGRAD_GROUP}/",
    lstm="RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{array}",
)


class Hdf5Weights(Family):
    """Models of bilm-tf and AllenNLP, and those that elmo writes."""

    key = "bilm-tf"
    name = "weights in HDF5"
    usual_files = f"{OPTIONS_FILE} and {WEIGHTS_FILE}"
    takes_options = False  # both files are named
    members = (
        r"[^./][^/]*\.(hdf5|h5)|([^./][^/]*)?options[^/]*\.json|parts\.json"
        r"|vocab[^/]*\.txt(\.gz)?|(characters|words)\.txt|README\.md"
    )

    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find the model of a weight file, or the one in a folder."""
        if not path.is_dir():
            if not path.exists() or not _is_hdf5(path):
                return None
            return _paths_of(path, options)
        candidates = possible_weights(sorted(file.name for file in path.iterdir()))
        if not candidates:
            return None
        if len(candidates) > 1:
            problem = f"contains {len(candidates)} possible weight files ({listed(candidates)})"
            raise ModelError(problem, "give one of them with its path", where=path)
        weights = path / candidates[0]
        if not _is_hdf5(weights):
            raise not_a_model(weights, (), head_of(weights))
        return replace(_paths_of(weights, options), name=path.resolve().name)

    @contextmanager
    def open(self, paths: ModelPaths, *, verify: bool = True) -> Iterator[ArraysModel]:
        """Open the weights; HDF5 verifies its checksums in any case."""
        from elmo_cli.weightfile.open_weights import open_weights

        options = self.read_options(paths)
        assert paths.options is not None
        with open_weights(paths.weights) as stored:
            refuse_other_models(stored)
            arrays: NamedArrays = stored
            if stored.shape("RNN_0/RNN/LSTMCell/W_0") is not None:
                arrays = RenamedArrays(stored, _ONE_LAYER)
            model = ArraysModel(
                options,
                arrays,
                assumed=assumed_options(paths.options, options),
                dictionaries=read_dictionaries(
                    options,
                    characters=paths.options.with_name(CHARACTERS_FILE),
                    words=paths.options.with_name(WORDS_FILE),
                ),
            )
            if paths.optimizer_state is not None:
                model.optimizer = "adagrad"
                model.open_accumulators = partial(_open_accumulators, paths.optimizer_state)
            yield model

    def read_options(self, paths: ModelPaths) -> Options:
        """Read options.json, without opening the weights."""
        assert paths.options is not None
        return Options.from_file(paths.options)

    def digest(self, paths: ModelPaths) -> str:
        """The SHA-256 of the weight file."""
        with reading(paths.weights):
            return sha256_of_file(paths.weights)

    def check(self, paths: ModelPaths) -> None:
        """Open the files in a child process first, because HDF5 may crash on a corrupt file."""
        from elmo_cli.weightfile.open_weights import check_data_sets

        check_data_sets([paths.weights])
        super().check(paths)


def possible_weights(names: Sequence[str]) -> list[str]:
    """The names of files that are probably weights; embeddings may be next to them."""
    usual = [name for name in names if name in _USUAL_WEIGHTS]
    if usual:
        return usual
    others = []
    for name in names:
        is_other_part = "softmax" in name or name in (STATE_FILE, OPTIMIZER_FILE)
        if name.endswith(HDF5_SUFFIXES) and not is_other_part:
            others.append(name)
    named = [name for name in others if "weights" in name]
    return named if named else others


def _paths_of(weights: Path, options: Path | None) -> ModelPaths:
    """The files of the model of a weight file; ModelError if its options are ambiguous."""
    folder = weights.parent
    stem = weights.stem.partition("_weights")[0]  # X of X_weights.hdf5
    if options is None:
        options = find_file(folder, (f"{stem}_options.json", OPTIONS_FILE), "*options*.json")
    if options is None:
        names = [path.name for path in folder.glob("*options*.json")]
        count = f"{len(names)} options files ({listed(names)})" if names else f"no {OPTIONS_FILE}"
        hint = f"copy the one that belongs to it into the same folder, as {OPTIONS_FILE}"
        raise ModelError(f"{count} next to it", hint, where=weights)
    has_usual_name = weights.stem in ("weights", "model")
    softmax_names = (SOFTMAX_FILE, f"{stem}_softmax_weights.hdf5")
    dictionaries = [options.with_name(name) for name in (CHARACTERS_FILE, WORDS_FILE)]
    return ModelPaths(
        name=weights.resolve().parent.name if has_usual_name else weights.stem,
        options=options,
        weights=weights,
        others=tuple(path for path in dictionaries if path.is_file()),
        softmax=find_file(folder, softmax_names, "*softmax*.hdf5"),
        vocabulary=find_vocabulary(folder),
        warm_state=find_file(folder, (STATE_FILE,)),
        optimizer_state=find_file(folder, (OPTIMIZER_FILE,)),
    )


@contextmanager
def _open_accumulators(path: Path) -> Iterator[NamedArrays]:
    """Open the accumulators of Adagrad that `write_accumulators` has written."""
    from elmo_cli.weightfile.open_weights import check_data_sets, open_weights

    check_data_sets([path])
    with open_weights(path, largest=LARGEST_SUM) as stored:
        yield RenamedArrays(stored, _ACCUMULATORS)


def _is_hdf5(weights: Path) -> bool:
    """Whether a file may be HDF5; unknown content is left to its reader if the name says so."""
    head = head_of(weights)
    kind = identify(head)
    if kind == HDF5:
        return True
    is_unknown = kind is None and weights.suffix in HDF5_SUFFIXES
    return is_unknown and identify_foreign_model([weights.name], head) is None
