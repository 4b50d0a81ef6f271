"""scikit-learn: ElmoVectorizer, which is imported together with scikit-learn on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elmo_cli.requirements import import_program

if TYPE_CHECKING:
    from elmo_cli.interop.elmo_vectorizer import ElmoVectorizer as ElmoVectorizer

__all__ = ["ElmoVectorizer"]


def __getattr__(name: str) -> Any:
    if name != "ElmoVectorizer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_program("sklearn", extra="sklearn")
    from elmo_cli.interop.elmo_vectorizer import ElmoVectorizer

    return ElmoVectorizer


def __dir__() -> list[str]:
    return __all__
