"""Family: how model files of one kind are found and opened; and OpenModel, what is in them.

A family is a subclass of `Family` in a module of its own and one entry in `registry.py`. A family
whose arrays are those of bilm-tf under other names implements `NamedArrays` and opens an
`ArraysModel`, which does the rest. Nothing here imports torch, nor h5py before a file is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from elmo_cli.families.dictionaries import token_ids_of
from elmo_cli.families.model_paths import ModelPaths
from elmo_cli.model.options import Options
from elmo_cli.text.characters import TokenIds
from elmo_cli.text.unicode_characters import Dictionary
from elmo_cli.weightfile.named_arrays import (
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    NamedArrays,
    check_shape,
    digest_arrays,
    read_parameters,
    resolve_options,
)
from elmo_cli.weightfile.table import LOSS_TOKENS

if TYPE_CHECKING:
    from elmo_cli.arrays import Float32Array
    from elmo_cli.model.bilm import NextTokenSoftmax


class OpenModel(ABC):
    """A model whose files are open: all shapes are checked, and no values are read yet.

    Attributes:
        options: the sizes.
        assumed: the options that the files do not state, by their paths in an options.json.
        optimizer: whose state the files contain, such as "adagrad"; "" for none.
        loss_tokens: over how many tokens the training summed the loss; the accumulators are sums of
            squared gradients of that loss.
        layer_mix: the weights of a sum of layers, as `mix:W0,W1,W2,GAMMA`; "" for none.
        token_ids: from tokens to ids; None for bytes.
        dictionaries: of a model that reads Unicode characters, by the names of `model.options`.
    """

    options: Options
    assumed: Mapping[str, Any]
    optimizer: str = ""
    loss_tokens: int = LOSS_TOKENS
    layer_mix: str = ""
    token_ids: TokenIds | None = None
    dictionaries: Mapping[str, Dictionary] = MappingProxyType({})

    @property
    def characters(self) -> str:
        """What the characters of a token are, for people."""
        n_read = self.options.max_characters - 2  # without begin and end of the word
        if not self.options.is_unicode:
            return f"bytes of UTF-8, at most {n_read} of a token"
        text = f"{self.options.n_characters:,} Unicode characters, at most {n_read} of a token"
        if self.options.word_dim:
            text += f"; {self.options.n_words:,} words"
        return text

    @abstractmethod
    def parameters(self) -> Iterator[tuple[str, Float32Array]]:
        """Read the parameters, by their names in `BiLM.state_dict`; or WeightFileError.

        The arrays are contiguous and writable, and all values are finite.
        """

    @abstractmethod
    def digest(self) -> str:
        """A SHA-256 that identifies the weights; see `digest_arrays`."""

    def accumulators(self, n_types: int) -> Iterator[tuple[str, Float32Array]]:
        """Read the accumulators of Adagrad, which are sums of squared gradients.

        Call it only if `optimizer` is "adagrad". The accumulators of the biLM have the names of
        `BiLM.state_dict` after "bilm."; those of the softmax layer are "softmax.weight" and
        "softmax.bias".

        Args:
            n_types: the number of types that the softmax layer predicts.
        Raises:
            WeightFileError: an accumulator is missing, corrupt or of another shape.
        """
        raise NotImplementedError

    def softmax_shape(self) -> tuple[int, ...] | None:
        """The shape (type, projection) of the softmax layer inside the files; None without one."""
        return None

    def read_softmax(self, n_types: int) -> NextTokenSoftmax:
        """Read the softmax layer for a vocabulary of `n_types`; WeightFileError if it has another
        size. Only a model with a `softmax_shape` has one."""
        raise NotImplementedError


class ArraysModel(OpenModel):
    """A model whose arrays have the names of bilm-tf, or are read as if they had.

    Raises:
        WeightFileError: the arrays do not fit the options.
    """

    def __init__(
        self,
        options: Options,
        arrays: NamedArrays,
        assumed: Mapping[str, Any],
        dictionaries: Mapping[str, Dictionary] | None = None,
    ) -> None:
        self.arrays = arrays
        # Opens the accumulators, which have the names of `arrays`.
        self.open_accumulators: Callable[[], AbstractContextManager[NamedArrays]] | None = None
        self.assumed = assumed
        self.options = resolve_options(arrays, options)
        if dictionaries:
            self.dictionaries = dictionaries
            self.token_ids = token_ids_of(self.options, dictionaries, matrix="the weight file")

    def parameters(self) -> Iterator[tuple[str, Float32Array]]:
        """Read the parameters, array by array."""
        return read_parameters(self.arrays, self.options)

    def accumulators(self, n_types: int) -> Iterator[tuple[str, Float32Array]]:
        """Read the accumulators, array by array."""
        assert self.open_accumulators is not None
        with self.open_accumulators() as accumulators:
            resolve_options(accumulators, self.options)
            check_shape(accumulators, SOFTMAX_WEIGHT, (n_types, self.options.projection_dim))
            check_shape(accumulators, SOFTMAX_BIAS, (n_types,))
            for name, array in read_parameters(accumulators, self.options):
                yield f"bilm.{name}", array
            yield "softmax.weight", accumulators.read(SOFTMAX_WEIGHT)
            yield "softmax.bias", accumulators.read(SOFTMAX_BIAS)

    def digest(self) -> str:
        """The SHA-256 of the arrays that the biLM uses."""
        return digest_arrays(self.arrays, self.options)

    def softmax_shape(self) -> tuple[int, ...] | None:
        """The shape of softmax/W."""
        return self.arrays.shape(SOFTMAX_WEIGHT)

    def read_softmax(self, n_types: int) -> NextTokenSoftmax:
        """Read softmax/W and softmax/b."""
        from elmo_cli.weightfile.read import softmax_of_arrays  # imports torch

        projection = self.options.projection_dim
        return softmax_of_arrays(self.arrays, n_types=n_types, projection=projection)


class Family(ABC):
    """Models of one kind of files.

    Attributes:
        key: in the attribute `model_family` of an embeddings file.
        name: of a model, with an article, for messages.
        usual_files: what a model consists of, for messages.
        members: a pattern for the paths of its files in an archive, after the folder of the model.
        takes_options: whether a user may name an options.json besides the path of a model.
    """

    key: str
    name: str
    usual_files: str
    members: str
    takes_options: bool = True

    @abstractmethod
    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find the files of a model by their names and first bytes.

        Args:
            path: a folder, a file, or what the names of several files begin with.
            options: the file that states the sizes, if the user has named one.
        Returns:
            None if these are not files of this family.
        Raises:
            ModelError: they are, but which of them make up a model is not clear.
        """

    @abstractmethod
    def open(self, paths: ModelPaths, *, verify: bool = True) -> AbstractContextManager[OpenModel]:
        """Open the files, whose shapes are checked before memory is taken.

        Args:
            verify: compare what is read with the checksums in the files, if there are any.
        Raises:
            OptionsError: the options can't describe a biLM.
            WeightFileError: the weights are corrupt or do not fit the options.
            ModelError: a model that cannot be read, such as one without characters.
        """

    def read_options(self, paths: ModelPaths) -> Options:
        """Read the sizes of a model; errors as of `open`."""
        with self.open(paths) as model:
            return model.options

    def digest(self, paths: ModelPaths) -> str:
        """Identify the weights of a model by a SHA-256; errors as of `open`."""
        with self.open(paths, verify=False) as model:
            return model.digest()

    def check(self, paths: ModelPaths) -> None:
        """Refuse files that are corrupt or do not fit each other, without importing torch and
        without reading all values; errors as of `open`."""
        from elmo_cli.weightfile.open_weights import check_data_sets

        check_data_sets([paths.softmax, paths.warm_state])
        with self.open(paths):
            pass
