"""Contextual word vectors from the command line: the biLM of Peters et al. 2018 (ELMo).

    from elmo_cli import load, Embedder, ElmoMix, EmbeddingsDataset, open_embeddings

    embedder = Embedder(load())
    layers = embedder.embed(["The", "cat", "sat"])  # (layer, token, dim) float32

Names are imported on first use, so that `import elmo_cli` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.version import __version__

if TYPE_CHECKING:
    from elmo_cli.dataset import EmbeddingsDataset as EmbeddingsDataset
    from elmo_cli.embed.embedder import Embedder as Embedder
    from elmo_cli.embed.run import embed_file as embed_file
    from elmo_cli.embed.settings import EmbedderSettings as EmbedderSettings
    from elmo_cli.errors import ElmoError as ElmoError
    from elmo_cli.lm.language_model import LanguageModel as LanguageModel
    from elmo_cli.lm.language_model import load_language_model as load_language_model
    from elmo_cli.model.bilm import BiLM as BiLM
    from elmo_cli.model.mix import ElmoMix as ElmoMix
    from elmo_cli.plot.figures import plot_curves as plot_curves
    from elmo_cli.plot.figures import plot_geometry as plot_geometry
    from elmo_cli.plot.figures import plot_layers as plot_layers
    from elmo_cli.plot.figures import plot_probes as plot_probes
    from elmo_cli.plot.figures import plot_senses as plot_senses
    from elmo_cli.plot.figures import plot_similarity as plot_similarity
    from elmo_cli.plot.figures import plot_tree as plot_tree
    from elmo_cli.pretrained.load import load as load
    from elmo_cli.store.reader import open_embeddings as open_embeddings
    from elmo_cli.store.spec import FileSpec as FileSpec
    from elmo_cli.text.input import InputSettings as InputSettings
    from elmo_cli.text.input import read_sentences as read_sentences
    from elmo_cli.text.sentence import Sentence as Sentence

_MODULES = {  # of each name
    "BiLM": "elmo_cli.model.bilm",
    "ElmoError": "elmo_cli.errors",
    "ElmoMix": "elmo_cli.model.mix",
    "Embedder": "elmo_cli.embed.embedder",
    "EmbedderSettings": "elmo_cli.embed.settings",
    "EmbeddingsDataset": "elmo_cli.dataset",
    "FileSpec": "elmo_cli.store.spec",
    "InputSettings": "elmo_cli.text.input",
    "LanguageModel": "elmo_cli.lm.language_model",
    "Sentence": "elmo_cli.text.sentence",
    "embed_file": "elmo_cli.embed.run",
    "load": "elmo_cli.pretrained.load",
    "load_language_model": "elmo_cli.lm.language_model",
    "open_embeddings": "elmo_cli.store.reader",
    "plot_curves": "elmo_cli.plot.figures",
    "plot_geometry": "elmo_cli.plot.figures",
    "plot_layers": "elmo_cli.plot.figures",
    "plot_probes": "elmo_cli.plot.figures",
    "plot_senses": "elmo_cli.plot.figures",
    "plot_similarity": "elmo_cli.plot.figures",
    "plot_tree": "elmo_cli.plot.figures",
    "read_sentences": "elmo_cli.text.input",
}

# Names of AllenNLP and bilm-tf -> the module that has them with the same signatures.
_NAMES_OF_OTHERS = {
    "Elmo": "elmo_cli.interop.allennlp",
    "ElmoEmbedder": "elmo_cli.interop.allennlp",
    "ElmoTokenEmbedder": "elmo_cli.interop.allennlp",
    "ScalarMix": "elmo_cli.interop.allennlp",
    "batch_to_ids": "elmo_cli.interop.allennlp",
    "remove_sentence_boundaries": "elmo_cli.interop.allennlp",
    "dump_bilm_embeddings": "elmo_cli.interop.bilm_tf",
    "dump_token_embeddings": "elmo_cli.interop.bilm_tf",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _NAMES_OF_OTHERS:  # no AttributeError, whose text `from … import` replaces
        raise ImportError(
            f"{name} is not in elmo_cli: `from {_NAMES_OF_OTHERS[name]} import {name}`; "
            "docs/guides/moving.md lists what replaces the other names of AllenNLP and bilm-tf",
            name="elmo_cli",
        )
    if name not in _MODULES:
        raise AttributeError(f"module 'elmo_cli' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
