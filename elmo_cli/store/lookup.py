"""key_of: where a file holds a sentence of the text that it was made from."""

from __future__ import annotations

from elmo_cli.errors import UsageError
from elmo_cli.store.datasets import NamedSentences
from elmo_cli.store.layouts import keys
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings
from elmo_cli.text.sentence import Sentence, shortened

_BY_DOCUMENT = ("e2e-coref", "lsgn", "dygie")


def key_of(embeddings: Embeddings, sentence: Sentence) -> Key:
    """The key of a sentence in a file, whether it is there or not.

    A file that names its sentences is asked by name, as its own readers do: numbers would count in
    the order of the file, in which sentences may be missing, or which a `/` in their names lost.

    Args:
        embeddings: an open file.
        sentence: as the text was read for the file.
    Raises:
        UsageError: nothing tells its name, and the file has no order by which to count.
    """
    named = embeddings.sentences
    if not isinstance(named, NamedSentences):
        return sentence.key
    if embeddings.layout == "manylangs":
        return sentence.tokens
    if embeddings.layout == "allennlp":
        return sentence.text
    if embeddings.layout not in _BY_DOCUMENT or sentence.document is None:
        if named.keeps_order:
            return sentence.key
        if embeddings.layout not in _BY_DOCUMENT:
            if sentence.text in embeddings:  # the text is a list of the names
                return sentence.text
            raise UsageError(
                f"{sentence.where}: {shortened(sentence.text)!r} is no name in {embeddings.path}, "
                "which lists its sentences by names, not in the order of the text",
                "give a text of these names, or embed with `--layout flat`",
            )
        raise UsageError(
            f"{sentence.where}: of no document that has a name, and {embeddings.path} lists its "
            "sentences by names of documents, not in the order of the text",
            "`# newdoc id = …` in CoNLL-U and `#begin document (…);` in columns name documents; or "
            "embed with `--layout flat`",
        )
    if embeddings.layout == "lsgn" and keys.is_ontonotes(sentence.document or ""):
        return keys.ontonotes(sentence, "lsgn")
    return sentence.document, sentence.place
