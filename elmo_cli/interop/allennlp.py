"""AllenNLP's interface of ELMo: ElmoEmbedder, Elmo and their helpers, and register.

Signatures, values, masks, gradients and the carried state are those of AllenNLP 0.9.0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.interop.allennlp_bilm import _ElmoBiLm as _ElmoBiLm
from elmo_cli.interop.allennlp_embedder import DEFAULT_BATCH_SIZE, ElmoEmbedder
from elmo_cli.interop.allennlp_files import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmo_cli.interop.allennlp_ids import ConfigurationError, batch_to_ids
from elmo_cli.interop.allennlp_mix import ScalarMix, remove_sentence_boundaries

__all__ = [
    "ConfigurationError",
    "Elmo",
    "ElmoEmbedder",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "batch_to_ids",
    "register",
    "remove_sentence_boundaries",
]


class Elmo(nn.Module):
    """Learned sums of the layers of a biLM, as AllenNLP's class of this name.

    Args:
        options_file, weight_file: paths, or the URLs of a published model; None for the bundled
            model, and with `module`.
        num_output_representations: the number of sums.
        requires_grad: whether the biLM is trained; otherwise only the weights of the sums are.
        do_layer_norm: see `ScalarMix`; over tokens and sentence boundaries.
        dropout: of the sums, in training.
        vocab_to_cache: see `_ElmoBiLm`.
        keep_sentence_boundaries: whether the boundaries have vectors in the output.
        scalar_mix_parameters: weights of the layers before the softmax, which are not trained.
        module: in place of the biLM; it has `num_layers`, and its `forward` returns "activations"
            and "mask".
        state: "carry" or "zero", see `_ElmoBiLm`.
        finetune: another name of `requires_grad`, which SuPar uses.
    Raises:
        ConfigurationError: a module and files.
        ModelError, UsageError, OptionsError, WeightFileError: as of `load_model`.
    """

    def __init__(
        self,
        options_file: StrPath | None,
        weight_file: StrPath | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        state: str = "carry",
        finetune: bool | None = None,
    ) -> None:
        super().__init__()
        if finetune is not None:
            message = "`finetune` of Elmo is `requires_grad` in AllenNLP"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            requires_grad = finetune
        self._elmo_lstm: Any = module
        if module is None:
            self._elmo_lstm = _ElmoBiLm(
                options_file, weight_file, requires_grad, vocab_to_cache, state=state
            )
        elif options_file is not None or weight_file is not None:
            hint = "`module` replaces the biLM of the files: give None for both"
            raise ConfigurationError("a module, and files of a model", hint)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._n_representations = num_output_representations
        self._dropout = nn.Dropout(dropout)
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)

    def get_output_dim(self) -> int:
        """The size of a vector, both directions."""
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, list[Tensor] | Tensor]:
        """The sums of the layers of a batch; its final state becomes the start of the next one.

        Args:
            inputs: from `batch_to_ids`, (…, token, 50), with zeros behind the tokens of a row.
                Several axes before `token` are read as one batch, in order.
            word_inputs: positions in `vocab_to_cache`, (…, token), see `_ElmoBiLm.forward`.
        Returns:
            "elmo_representations": a list of tensors (…, token, dim), with zeros at padding;
            "mask": (…, token), int64. Both have two more tokens with `keep_sentence_boundaries`.
        Raises:
            IndexError, ValueError: as of `_ElmoBiLm.forward`.
            ConfigurationError: there are no sums.
        """
        if not self._n_representations:
            hint = "give `num_output_representations` of at least 1"
            raise ConfigurationError("no representations to compute", hint)
        leading_axes = inputs.shape[:-2]
        if len(leading_axes) > 1:
            inputs = inputs.reshape(-1, *inputs.shape[-2:])
        if word_inputs is not None and not self._has_cached_vocab:
            warnings.warn("word_inputs without vocab_to_cache are ignored", stacklevel=2)
            word_inputs = None
        if word_inputs is not None and word_inputs.ndim > 2:
            leading_axes = word_inputs.shape[:-1]
            word_inputs = word_inputs.reshape(-1, word_inputs.shape[-1])
        bilm_output = self._elmo_lstm(inputs, word_inputs)
        representations = []
        mask = bilm_output["mask"]
        for number in range(self._n_representations):
            mix = self.get_submodule(f"scalar_mix_{number}")
            representation = mix(bilm_output["activations"], bilm_output["mask"])
            if not self._keep_sentence_boundaries:
                representation, mask = remove_sentence_boundaries(
                    representation, bilm_output["mask"]
                )
            representation = self._dropout(representation)
            if len(leading_axes) > 1:
                shape = (*leading_axes, *representation.shape[1:])
                representation = representation.reshape(shape)
            representations.append(representation)
        if len(leading_axes) > 1:
            mask = mask.reshape(*leading_axes, mask.shape[1])
        return {"elmo_representations": representations, "mask": mask}


class ElmoTokenEmbedder(nn.Module):
    """One learned sum of the layers of a biLM, with an optional projection.

    Args:
        projection_dim: the size of the output; None for the size of the biLM.
        The other arguments are those of `Elmo`.
    """

    def __init__(
        self,
        options_file: StrPath | None,
        weight_file: StrPath | None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        state: str = "carry",
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            num_output_representations=1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
            state=state,
        )
        self._projection: nn.Linear | None = None
        self.output_dim = self._elmo.get_output_dim()
        if projection_dim:
            self._projection = nn.Linear(self.output_dim, projection_dim)
            self.output_dim = projection_dim

    def get_output_dim(self) -> int:
        """The size of a vector."""
        return self.output_dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """The vectors of a batch, (…, token, output_dim); the arguments of `Elmo.forward`."""
        (representation,) = self._elmo(inputs, word_inputs)["elmo_representations"]
        if self._projection is not None:
            representation = self._projection(representation)
        vectors: Tensor = representation
        return vectors


_REGISTERED: dict[str, dict[str, Any]] = {  # the names in each module
    "allennlp": {},
    "allennlp.commands": {},
    "allennlp.commands.elmo": {
        "DEFAULT_BATCH_SIZE": DEFAULT_BATCH_SIZE,
        "DEFAULT_OPTIONS_FILE": DEFAULT_OPTIONS_FILE,
        "DEFAULT_WEIGHT_FILE": DEFAULT_WEIGHT_FILE,
        "ElmoEmbedder": ElmoEmbedder,
    },
    "allennlp.common": {},
    "allennlp.common.checks": {"ConfigurationError": ConfigurationError},
    "allennlp.modules": {"Elmo": Elmo, "ScalarMix": ScalarMix},
    "allennlp.modules.elmo": {
        "Elmo": Elmo,
        "ScalarMix": ScalarMix,
        "_ElmoBiLm": _ElmoBiLm,
        "batch_to_ids": batch_to_ids,
        "remove_sentence_boundaries": remove_sentence_boundaries,
    },
    "allennlp.modules.scalar_mix": {"ScalarMix": ScalarMix},
    "allennlp.modules.token_embedders": {"ElmoTokenEmbedder": ElmoTokenEmbedder},
    "allennlp.modules.token_embedders.elmo_token_embedder": {
        "ElmoTokenEmbedder": ElmoTokenEmbedder
    },
    "allennlp.nn": {},
    "allennlp.nn.util": {"remove_sentence_boundaries": remove_sentence_boundaries},
}
_MARK = "registered_by_elmo_cli"  # an attribute of our modules


def register() -> None:
    """Make `import allennlp.…` find these names, so that code written for AllenNLP runs unchanged.

    Call it before that code is imported. Further calls do nothing.

    Raises:
        UsageError: AllenNLP is installed or imported.
    """
    imported = sys.modules.get("allennlp")
    if hasattr(imported, _MARK):
        return
    if imported is not None or find_spec("allennlp") is not None:
        hint = "import from `elmo_cli.interop.allennlp`, or use an environment without AllenNLP"
        raise UsageError("AllenNLP is installed: its name is taken", hint, where="register()")
    for path, names in _REGISTERED.items():
        module = ModuleType(path, doc="Names of AllenNLP, from elmo_cli.interop.allennlp.")
        setattr(module, _MARK, True)
        module.__path__ = []  # a package: other modules of AllenNLP are then not found in it
        for name, value in names.items():
            setattr(module, name, value)
        sys.modules[path] = module
        parent, _, last = path.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
