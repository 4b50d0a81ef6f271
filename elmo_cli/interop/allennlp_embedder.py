"""ElmoEmbedder: AllenNLP's class that embeds sentences as arrays, and files of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import Float32Array
from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import DeviceError
from elmo_cli.files import StrPath
from elmo_cli.interop.allennlp_bilm import _ElmoBiLm
from elmo_cli.interop.allennlp_ids import ConfigurationError, ElmoTokenIndexer, batch_to_ids
from elmo_cli.interop.allennlp_mix import remove_sentence_boundaries
from elmo_cli.store.derived_file import write_derived_file
from elmo_cli.store.intact_sentence import IntactSentence
from elmo_cli.store.layers import LayerSelection
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence
from elmo_cli.version import __version__

DEFAULT_BATCH_SIZE = 64
_OUTPUT_FORMATS = ("all", "top", "average")
_MOST_LISTED = 20  # numbers of blank lines in a message


class ElmoEmbedder:
    """Embeds batches of sentences; by default each row continues that of the batch before.

    Args:
        options_file, weight_file: paths, or the URLs of a published model; None for the bundled
            model.
        cuda_device: the number of a GPU; -1 for the CPU.
        state: "carry", so that a sentence embedded twice has two results, as in AllenNLP; or "zero"
            for results that do not depend on the batches before.
    Attributes:
        elmo_bilm: the biLM.
        indexer: from tokens to ids.
        cuda_device: the number of the GPU.
    Raises:
        ModelError, UsageError, OptionsError, WeightFileError: as of `load_model`.
        DeviceError: there is no such GPU.

    Example:
        layers = ElmoEmbedder().embed_sentence(["The", "cat", "sat"])  # (3, 3, dim) float32
    """

    def __init__(
        self,
        options_file: StrPath | None = None,
        weight_file: StrPath | None = None,
        cuda_device: int = -1,
        *,
        state: str = "carry",
    ) -> None:
        self.indexer = ElmoTokenIndexer()
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file, state=state)
        if cuda_device >= 0:
            self.elmo_bilm = self.elmo_bilm.to(_gpu(cuda_device))
        self.cuda_device = cuda_device

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """The layers of a batch as one tensor, and its mask.

        Returns:
            (batch, layer, token, dim), with zeros at padding; and the mask, (batch, token), int64.
        Raises:
            IndexError: the batch has no tokens.
            ConfigurationError, AttributeError: a token is not a string, see `batch_to_ids`.
        """
        layers, mask = self._padded_layers(batch)
        by_row = layers.transpose(0, 1).transpose(1, 2)  # (batch, token + 2, layer, dim)
        inner, inner_mask = remove_sentence_boundaries(by_row, mask)
        return inner.transpose(1, 2), inner_mask

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[Float32Array]:
        """The layers of each sentence, (layer, token, dim) float32.

        A string is a list of characters. `[[]]` has an array without tokens, and leaves the state
        as it is; an empty sentence beside others is read as its two boundaries. `[]` gives `[]`.

        Raises:
            IndexError: several sentences, all without tokens.
            ConfigurationError, AttributeError: a token is not a string.
        """
        if not len(batch):
            return []
        if isinstance(batch, list) and _is_empty_list(batch):
            n_layers = self.elmo_bilm.num_layers
            return [np.zeros((n_layers, 0, self.elmo_bilm.get_output_dim()), np.float32)]
        layers, mask = self._padded_layers(batch)
        values = layers.detach().cpu().numpy()
        n_tokens_of_rows = (mask.sum(1) - 2).tolist()
        arrays = []
        for row, n_tokens in enumerate(n_tokens_of_rows):
            arrays.append(values[:, row, 1 : 1 + n_tokens])
        return arrays

    def embed_sentence(self, sentence: Sequence[str]) -> Float32Array:
        """The layers of a sentence, (layer, token, dim), as a batch of one; see `embed_batch`."""
        return self.embed_batch([sentence])[0]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Float32Array]:
        """The layers of each sentence, in batches of `batch_size`; see `embed_batch`."""
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: StrPath,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed the lines of an open text file, and close it; tokens are separated by whitespace.

        The output replaces a file of its name when it is complete. It has the layout `allennlp`.

        Args:
            output_format: "all" layers, "top", or their plain "average".
            forget_sentences: leave out the map from lines to keys.
            use_sentence_keys: name each data set by its line; then there is no such map.
        Raises:
            ConfigurationError: a line is blank, or the format does not exist.
            InputError: with `use_sentence_keys`, a line occurs twice or cannot be a name.
            OutputError: the output cannot be written.
        """
        if output_format not in _OUTPUT_FORMATS:
            hint = f"choose {', '.join(_OUTPUT_FORMATS)}"
            raise ConfigurationError("not an output format", hint, where=repr(output_format))
        name = str(getattr(input_file, "name", "input_file"))
        with input_file:
            lines = [line.strip() for line in input_file]
        _check_no_line_is_blank(lines, name)
        sentences = []
        for key, line in enumerate(lines):
            tokens = tuple(line.split())
            sentences.append(Sentence(tokens=tokens, key=key, text=line, source=name, line=key + 1))
        n_layers = self.elmo_bilm.num_layers
        selection = LayerSelection.parse(output_format, range(n_layers), n_layers)
        arrays = self.embed_sentences((sentence.tokens for sentence in sentences), batch_size)
        spec = FileSpec(
            layout="allennlp",
            keys="sentence" if use_sentence_keys else "number",
            forget_sentences=forget_sentences,
            run_settings=self._run_settings(output_format, batch_size),
        )
        attributes = {
            "elmo_version": __version__,
            "torch_version": str(torch.__version__),
            "numpy_version": np.__version__,
            "h5py_version": h5py.__version__,
        }
        write_derived_file(
            output_file_path,
            spec,
            map(IntactSentence, sentences, map(selection.apply, arrays)),
            attributes,
            n_rows=sum(len(sentence.tokens) for sentence in sentences),
            overwrite=True,
        )

    def _padded_layers(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """The layers with boundaries, (layer, batch, token + 2, dim), and their mask."""
        return self.elmo_bilm.padded_layers(batch_to_ids(batch))

    def _run_settings(self, output_format: str, batch_size: int) -> dict[str, object]:
        """What `elmo embed` records of its settings."""
        is_carried = self.elmo_bilm._elmo_lstm.stateful
        settings: dict[str, object] = {
            "model": self.elmo_bilm.model_name,
            "model_sha256": self.elmo_bilm.model_sha256,
            "state": "carry" if is_carried else "zero",
            "layers": output_format,
            "pool": "none",
            "format": "plain",
            "tokenizer": "whitespace",
            "blank": "error",
        }
        if is_carried:
            settings["batch_size"] = batch_size
        return settings


def _gpu(number: int) -> torch.device:
    try:
        return select_device(f"cuda:{number}")
    except DeviceError as error:
        hint = "`cuda_device=-1` is the CPU"
        raise DeviceError(error.problem, hint, where=f"`cuda_device={number}`") from None


def _check_no_line_is_blank(lines: Sequence[str], name: str) -> None:
    """Raise a ConfigurationError that lists the numbers of the blank lines of a file."""
    blank = [str(number) for number, line in enumerate(lines, 1) if not line]
    if not blank:
        return
    numbers = ", ".join(blank[:_MOST_LISTED])
    if len(blank) > _MOST_LISTED:
        numbers += f" and {len(blank) - _MOST_LISTED:,} more"
    hint = "remove them; `elmo embed` keeps blank lines"
    raise ConfigurationError(f"blank lines: {numbers}", hint, where=name)


def _is_empty_list(batch: list[Sequence[str]]) -> bool:
    """Whether a batch is `[[]]`, which AllenNLP compares with."""
    return len(batch) == 1 and isinstance(batch[0], list) and not batch[0]
