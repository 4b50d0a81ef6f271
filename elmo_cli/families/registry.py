"""The list of all families; a new family is one more entry."""

from __future__ import annotations

from elmo_cli.families.allennlp_state import AllenNlpState
from elmo_cli.families.family import Family
from elmo_cli.families.hdf5_weights import Hdf5Weights
from elmo_cli.families.manylangs import Manylangs
from elmo_cli.families.saved_model import SavedModel
from elmo_cli.families.tf_checkpoint import TfCheckpoint

# In the order in which they are tried: a folder of another family may contain HDF5 files as well.
FAMILIES: tuple[Family, ...] = (
    Manylangs(),
    SavedModel(),
    TfCheckpoint(),
    AllenNlpState(),
    Hdf5Weights(),
)
