"""The functions of bilm-tf that write vectors: dump_bilm_embeddings and dump_token_embeddings."""

from __future__ import annotations

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.run import embed_file
from elmo_cli.files import StrPath
from elmo_cli.pretrained.load import load
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import InputSettings

__all__ = ["dump_bilm_embeddings", "dump_token_embeddings"]


def dump_bilm_embeddings(
    vocab_file: StrPath,
    dataset_file: StrPath,
    options_file: StrPath,
    weight_file: StrPath,
    outfile: StrPath,
) -> None:
    """Write all layers of each line of a text to HDF5, with the state carried from line to line.

    Args:
        vocab_file: not read: the vectors of its words are those of their characters.
        dataset_file: one sentence per line, tokens separated by spaces.
        outfile: replaced when the new file is complete; it has the layout `bilm`.
    Raises:
        ElmoError: of every kind.
    """
    bilm = load(options=options_file, weights=weight_file)
    embedder = Embedder(bilm, state="carry", batch_size=1)
    spec = FileSpec(layout="bilm")
    settings = InputSettings(format="plain")
    embed_file(dataset_file, outfile, embedder, file=spec, input_settings=settings, overwrite=True)


def dump_token_embeddings(
    vocab_file: StrPath, options_file: StrPath, weight_file: StrPath, outfile: StrPath
) -> None:
    """Write the context-free vector of each line of a vocabulary to HDF5, as data set `embedding`.

    Args:
        vocab_file: one word per line.
        outfile: replaced when the new file is complete; it has the layout `bilm-types`.
    Raises:
        ElmoError: of every kind.
    """
    embedder = Embedder(load(options=options_file, weights=weight_file))
    spec = FileSpec(layout="bilm-types")
    settings = InputSettings(format="plain")
    embed_file(vocab_file, outfile, embedder, file=spec, input_settings=settings, overwrite=True)
