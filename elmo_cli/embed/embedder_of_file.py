"""embedder_of_file: an embedder with the model and the settings of an embeddings file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.model.bilm import BiLM


def embedder_of_file(
    path: str, attributes: Mapping[str, Any], bilm: BiLM, *, device: str = "auto"
) -> Embedder:
    """Make an embedder that computes the vectors of an embeddings file.

    Args:
        path: of the file, for messages.
        attributes: what the file records of its run; defaults for what it does not record.
        bilm: the model that made the file.
    Raises:
        EmbeddingsFileError: another model made the file.
    """
    made_with = attributes.get("model_sha256")
    if made_with not in (None, bilm.sha256):
        raise EmbeddingsFileError(
            f"{path}: made with {attributes.get('model')} (sha256 {str(made_with)[:12]}…), "
            f"not with {bilm.name} (sha256 {bilm.sha256[:12]}…)",
            "choose the model of the file with `model`",
        )
    pool = attributes.get("pool")
    return Embedder(
        bilm,
        state=str(attributes.get("state", "zero")),
        layers=str(attributes.get("layers", "all")),
        pool=None if pool in (None, "none") else str(pool),
        device=device,
        precision=str(attributes.get("precision", "float32")),
    )
