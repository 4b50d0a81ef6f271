"""How an embeddings file is keyed and shaped, one layout a file."""

from __future__ import annotations

from elmo_cli.store.layouts.allennlp import AllenNlp, AllenNlpLines
from elmo_cli.store.layouts.bilm import Bilm
from elmo_cli.store.layouts.bilm_types import BilmTypes
from elmo_cli.store.layouts.contract import Layout
from elmo_cli.store.layouts.dygie import Dygie
from elmo_cli.store.layouts.e2e_coref import E2eCoref
from elmo_cli.store.layouts.flat import Flat
from elmo_cli.store.layouts.lsgn import Lsgn
from elmo_cli.store.layouts.manylangs import ManyLangs

LAYOUTS: dict[str, type[Layout]] = {
    "allennlp": AllenNlp,
    "bilm": Bilm,
    "bilm-types": BilmTypes,
    "e2e-coref": E2eCoref,
    "lsgn": Lsgn,
    "dygie": Dygie,
    "manylangs": ManyLangs,
    "flat": Flat,
}


def layout_class(name: str, keys: str) -> type[Layout]:
    """The layout of that name; `keys` is `sentence` for allennlp's sentence keys."""
    return AllenNlpLines if keys == "sentence" else LAYOUTS[name]
