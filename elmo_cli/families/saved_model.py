"""SavedModel modules of TF-Hub, such as `google/elmo`: the inference graph of bilm-tf.

Only the variables are read. The graph in saved_model.pb is not, so that activation, clips, skip
connections and the number of characters are those of the original model, or of an options.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError
from elmo_cli.families.array_names import TENSORFLOW_LSTM_ARRAYS, ArrayNames, RenamedArrays
from elmo_cli.families.assumed_options import options_and_assumed
from elmo_cli.families.family import ArraysModel, Family
from elmo_cli.families.layer_mix import layer_mix
from elmo_cli.families.model_paths import NAME_OPTIONS, ModelPaths, find_file
from elmo_cli.families.refused_models import refuse_other_models
from elmo_cli.families.sizes_of_shapes import (
    assumed_settings,
    sizes_of_shapes,
    unstated_settings,
)
from elmo_cli.families.tensor_bundle import TensorBundle
from elmo_cli.model.options import Options
from elmo_cli.model_folder import OPTIONS_FILE
from elmo_cli.weightfile.named_arrays import NamedArrays

_VARIABLES = "variables"
_INDEX = "variables.index"
_NAMES = ArrayNames(
    prefix="bilm/",
    lstm="RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/rnn/lstm_cell/{array}",
    lstm_arrays=TENSORFLOW_LSTM_ARRAYS,
)
# The variables with the weights (before the softmax) and with the factor of a sum of layers, in
# modules of Google and of DeepPavlov.
_MIXES = (
    ("aggregation/weights", "aggregation/scaling"),
    ("elmo_output_ELMo_W", "elmo_output_ELMo_gamma"),
)
_ORIGINAL = Options(
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    projection_dim=512,
    lstm_dim=4096,
    n_highway=2,
)


class SavedModel(Family):
    """Modules of TF-Hub with the biLM of bilm-tf."""

    key = "saved-model"
    name = "a SavedModel of TensorFlow"
    usual_files = "saved_model.pb and the folder variables"
    members = r"saved_model\.pb|variables/variables\.(index|data-\d{5}-of-\d{5})"

    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find a module by its folder, by the folder of its variables or by a file in either."""
        folder = path
        if path.name in (_VARIABLES, "saved_model.pb"):
            folder = path.parent
        elif path.parent.name == _VARIABLES:
            folder = path.parent.parent
        index = folder / _VARIABLES / _INDEX
        if not index.is_file():
            return None
        if options is None:
            options = find_file(folder, (OPTIONS_FILE,))
        return ModelPaths(
            name=folder.resolve().name,
            weights=index,
            options=options,
            others=tuple(sorted(index.parent.glob("variables.data-?????-of-?????"))),
        )

    @contextmanager
    def open(self, paths: ModelPaths, *, verify: bool = True) -> Iterator[ArraysModel]:
        """Open the variables, and refuse a module of another model."""
        bundle = TensorBundle(paths.weights, verify=verify)
        refuse_other_models(bundle, _NAMES.prefix)
        if bundle.shape("bilm/char_embed") is None:
            problem = f"has no variable bilm/char_embed among {len(bundle.names)}"
            hint = "give a module of an ELMo model, such as `google/elmo`"
            raise ModelError(problem, hint, where=bundle.where)
        arrays = RenamedArrays(bundle, _NAMES)
        options, assumed = _options(paths, arrays)
        model = ArraysModel(options, arrays, assumed)
        model.layer_mix = _layer_mix(bundle, 1 + options.n_layers)
        yield model


def _options(paths: ModelPaths, arrays: NamedArrays) -> tuple[Options, dict[str, Any]]:
    """The options, and those that no file states."""
    if paths.options is not None:
        return options_and_assumed(paths.options)
    if sizes_of_shapes(arrays) != _ORIGINAL:
        hint = f"copy an {OPTIONS_FILE} with them and all sizes into its folder, or {NAME_OPTIONS}"
        raise unstated_settings(arrays, where=paths.weights.parent.parent, hint=hint)
    return _ORIGINAL, assumed_settings(_ORIGINAL)


def _layer_mix(bundle: TensorBundle, n_layers: int) -> str:
    """The sum of layers that the module has learned; "" for none."""
    for weights_name, scaling_name in _MIXES:
        if bundle.shape(weights_name) == (n_layers,) and bundle.shape(scaling_name) == ():
            scaling = float(bundle.read(scaling_name))
            return layer_mix(bundle.read(weights_name).tolist(), scaling)
    return ""
