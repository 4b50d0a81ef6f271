"""UsageSettings: which vectors a file of usages has, recorded in the comment of its archive.

`numpy.load` and other readers of .npz files ignore the comment of a zip archive.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder


@dataclass(frozen=True)
class UsageSettings:
    """What two files of usages must have in common to be compared.

    Attributes:
        model_sha256: of the files of the model; "" for a model that was never in a file.
        layers: the number of the layer, also of "top", or the name of a sum such as "average".
    """

    model_sha256: str
    layers: str

    @classmethod
    def of(cls, embedder: Embedder) -> UsageSettings:
        """The settings of the vectors of an embedder."""
        selection = embedder.output.layers
        layers = selection.name if selection.is_sum else ",".join(map(str, selection.indices))
        return cls(model_sha256=embedder.bilm.sha256, layers=layers)

    @classmethod
    def parse(cls, comment: bytes) -> UsageSettings | None:
        """Read the comment of an archive; None for a file that elmo has not written."""
        try:
            recorded = json.loads(comment)
        except (ValueError, RecursionError):
            return None
        names = {field.name for field in fields(cls)}
        if not isinstance(recorded, dict) or recorded.keys() != names:
            return None
        if not all(isinstance(value, str) for value in recorded.values()):
            return None
        return cls(**recorded)

    def to_comment(self) -> bytes:
        """The comment of an archive with vectors of these settings."""
        return json.dumps(asdict(self)).encode()

    def first_difference(self, other: UsageSettings) -> str | None:
        """The name of the first setting that differs; None if the vectors can be compared."""
        if self.model_sha256 and other.model_sha256 and self.model_sha256 != other.model_sha256:
            return "model_sha256"
        return "layers" if self.layers != other.layers else None
