"""spaCy: the component `elmo`, the architecture `elmo.Tok2Vec.v1`, and add_hooks.

The entry points of the package lead here. spaCy is imported together with the first of these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.requirements import import_program

if TYPE_CHECKING:
    from elmo_cli.interop.spacy_component import make_component as make_component
    from elmo_cli.interop.spacy_hooks import add_hooks as add_hooks
    from elmo_cli.interop.spacy_tok2vec import tok2vec as tok2vec

_MODULES = {  # of each name
    "add_hooks": "elmo_cli.interop.spacy_hooks",
    "make_component": "elmo_cli.interop.spacy_component",
    "tok2vec": "elmo_cli.interop.spacy_tok2vec",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_program("spacy", extra="spacy")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
