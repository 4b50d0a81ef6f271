"""The sizes of a biLM as the shapes of its arrays state them, for files without options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elmo_cli.errors import UnstatedSettingsError
from elmo_cli.families.assumed_options import FORGET_BIAS
from elmo_cli.model.options import Options
from elmo_cli.weightfile.table import CHAR_EMBED, lstm_path

if TYPE_CHECKING:
    from pathlib import Path

    from elmo_cli.weightfile.named_arrays import NamedArrays

# What no shape shows, in the published models of bilm-tf and AllenNLP and by default here.
SETTINGS_NOT_STATED = (
    "char_cnn.activation",
    "char_cnn.max_characters_per_token",
    "lstm.cell_clip",
    "lstm.proj_clip",
    "lstm.use_skip_connections",
)


def sizes_of_shapes(arrays: NamedArrays) -> Options | None:
    """The sizes, with the settings of the published models; None for shapes that no biLM has.

    Args:
        arrays: by their names in the HDF5 files of bilm-tf.
    """
    filters: list[tuple[int, int]] = []
    shape = arrays.shape("CNN/W_cnn_0")
    while shape is not None:
        if len(shape) != 4:
            return None
        _, width, _, count = shape
        filters.append((width, count))
        shape = arrays.shape(f"CNN/W_cnn_{len(filters)}")
    embedding = arrays.shape(CHAR_EMBED)
    kernel = arrays.shape(_lstm_weights(0))
    if embedding is None or kernel is None or len(embedding) != 2 or len(kernel) != 2:
        return None
    n_layers = 1
    while arrays.shape(_lstm_weights(n_layers)) is not None:
        n_layers += 1
    n_highway = 0
    while arrays.shape(f"CNN_high_{n_highway}/W_carry") is not None:
        n_highway += 1
    return Options(
        filters=tuple(filters),
        projection_dim=kernel[0] // 2,
        lstm_dim=kernel[1] // 4,
        char_dim=embedding[1],
        n_layers=n_layers,
        n_highway=n_highway,
    )


def unstated_settings(
    arrays: NamedArrays, *, where: Path, hint: str, problem: str = ""
) -> UnstatedSettingsError:
    """Make the error about a model whose files do not state all settings of its biLM.

    Args:
        arrays: by their names in the HDF5 files of bilm-tf.
        where: the file or the folder of the model.
        problem: what is missing; by default, the settings that no shape shows.
    """
    sizes = sizes_of_shapes(arrays)
    return UnstatedSettingsError(
        problem or f"its files do not state {', '.join(SETTINGS_NOT_STATED)}",
        hint,
        where=where,
        template={} if sizes is None else sizes.to_dict(),
    )


def assumed_settings(options: Options) -> dict[str, Any]:
    """The settings that `sizes_of_shapes` assumes, by their paths in an options.json."""
    sections = options.to_dict()
    assumed: dict[str, Any] = {FORGET_BIAS: 1.0}
    for path in SETTINGS_NOT_STATED:
        section, key = path.split(".")
        assumed[path] = sections[section][key]
    return assumed


def _lstm_weights(layer: int) -> str:
    return f"{lstm_path(0, layer)}/W_0"
