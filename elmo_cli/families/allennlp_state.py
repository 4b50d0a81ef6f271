"""State dictionaries of AllenNLP's `Elmo`, by themselves or in the archive of a model.

The tensors are those of bilm-tf in other arrangements: transposed, with other signs or in another
order of the gates, and with the forget bias added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ModelError, OptionsError
from elmo_cli.families.assumed_options import options_and_assumed
from elmo_cli.families.family import ArraysModel, Family
from elmo_cli.families.model_paths import NAME_OPTIONS, ModelPaths, find_file, head_of
from elmo_cli.families.sizes_of_shapes import (
    SETTINGS_NOT_STATED,
    assumed_settings,
    sizes_of_shapes,
    unstated_settings,
)
from elmo_cli.families.state_dict import read_state_dict
from elmo_cli.filetypes import TORCH, identify
from elmo_cli.model.options import Options
from elmo_cli.model_folder import OPTIONS_FILE
from elmo_cli.regular_files import read_json

if TYPE_CHECKING:
    from elmo_cli.families.state_arrays import StateArrays

_STATE_FILES = ("weights.th", "best.th")  # in an archive, and in the folder of a training
_SUFFIXES = (".th", ".pt", ".pth", ".bin")
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # how torch before 1.6 begins a file
_CONFIG = "config.json"
_OPTIONS_IN_CONFIG = "options_file"
_PUBLISHED = re.compile(r"https://[\w.-]*amazonaws\.com/(?:allennlp/)?models/elmo/(?:.*/)?(.+)")
_HINT = "give the state dictionary of a model with AllenNLP's `Elmo`"


class AllenNlpState(Family):
    """State dictionaries of AllenNLP's `Elmo`."""

    key = "allennlp"
    name = "a model of AllenNLP"
    usual_files = "weights.th and config.json, or model.tar.gz"
    members = r"(weights|best)\.th|config\.json|fta/[^/]*options_file"

    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find a state dictionary, or the one in the folder of an archive or a training."""
        state = path
        if path.is_dir():
            found = find_file(path, _STATE_FILES)
            if found is None:
                return None
            state = found
        if state.suffix not in _SUFFIXES or not state.is_file() or not _is_of_torch(state):
            return None
        folder = state.parent
        config = find_file(folder, (_CONFIG,))
        if options is None:
            options = find_file(folder, (OPTIONS_FILE,), f"fta/*{_OPTIONS_IN_CONFIG}")
        is_usual = state.name in _STATE_FILES
        return ModelPaths(
            name=state.resolve().parent.name if is_usual else state.stem,
            weights=state,
            options=options,
            others=() if config is None else (config,),
        )

    @contextmanager
    def open(self, paths: ModelPaths, *, verify: bool = True) -> Iterator[ArraysModel]:
        """Read the state dictionary in a child process; its checksums are verified."""
        from elmo_cli.families.state_arrays import StateArrays

        state = read_state_dict(paths.weights)
        arrays = StateArrays(state, _prefix_in(list(state.shapes), str(state.path)))
        options, assumed = _options(paths, arrays)
        model = ArraysModel(options, arrays, assumed)
        model.layer_mix = arrays.layer_mix(1 + options.n_layers)
        yield model


def _is_of_torch(path: Path) -> bool:
    head = head_of(path)
    return identify(head) is TORCH or head.startswith(_OLD_TORCH)


def _prefix_in(names: list[str], where: str) -> str:
    """What the names of the tensors of the biLM begin with.

    Raises:
        ModelError: there is no biLM, more than one, or a transformer.
    """
    ending = "_elmo_lstm._token_embedder._char_embedding_weights"
    prefixes = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    if len(prefixes) == 1:
        return prefixes[0]
    if prefixes:
        problem = f"holds {len(prefixes)} ELMo models ({', '.join(sorted(prefixes))})"
        raise ModelError(problem, "save the state dictionary of one of them", where=where)
    if any("_contextualizer" in name for name in names):
        problem = "a language model with another contextualizer, such as a transformer ELMo"
        raise ModelError(f"{problem}, which is no biLM", _HINT, where=where)
    raise ModelError(f"has no tensor {ending} among {len(names)}", _HINT, where=where)


def _options(paths: ModelPaths, arrays: StateArrays) -> tuple[Options, dict[str, Any]]:
    """The options, and those that no file states."""
    if paths.options is not None:
        return options_and_assumed(paths.options)
    named: list[str] = []
    for config in paths.others:
        named += _options_files(config)
    published = _PUBLISHED.fullmatch(named[0]) if named else None
    sizes = sizes_of_shapes(arrays)
    if published is None or sizes is None:
        problem = f"its files do not state {', '.join(SETTINGS_NOT_STATED)}"
        if named:
            problem += f", and {named[0]} is not in the archive"
        hint = f"name the {OPTIONS_FILE} of its ELMo model: {NAME_OPTIONS}"
        raise unstated_settings(arrays, where=paths.weights, hint=hint, problem=problem)
    assumed = {**assumed_settings(sizes), "options_file": published[1]}
    return sizes, assumed


def _options_files(config: Path) -> list[str]:
    """The values of `options_file` anywhere in a configuration of AllenNLP."""
    found: list[str] = []
    pending = [read_json(config, OptionsError, "give the config.json of the archive")]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            name = value.get(_OPTIONS_IN_CONFIG)
            if isinstance(name, str):
                found.append(name)
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return found
