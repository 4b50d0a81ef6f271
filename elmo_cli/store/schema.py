"""The number and the names of the schema; no imports, for `elmo embed --help`."""

from __future__ import annotations

SCHEMA = 1
MAP = "sentence_to_index"
LAYOUTS = (
    "allennlp",
    "bilm",
    "bilm-types",
    "e2e-coref",
    "lsgn",
    "dygie",
    "manylangs",
    "flat",
)
