"""The number of the schema and the names of the layouts; no imports, for `elmo embed --help`."""

from __future__ import annotations

SCHEMA = 1
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
