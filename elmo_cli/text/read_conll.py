"""One token a line, in columns: CoNLL-U, and the older CoNLL formats."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import chain

from elmo_cli.text.columns import Columns, ConlluColumns, head_of, recognised
from elmo_cli.text.decode import Source
from elmo_cli.text.documents import Document
from elmo_cli.text.refused_line import LineError
from elmo_cli.text.sentence import Sentence


def read_conllu(source: Source, key: int) -> Generator[Sentence, None, int]:
    """The sentences of a CoNLL-U file: its syntactic words, column 2 (FORM) unless `column` says.

    Left out are comments, ranges of words (`1-2`) and empty nodes (`8.1`), so that there are as
    many tokens as the file has words in its trees. A document begins at `# newdoc`; with an `id` it
    has a key, and its sentences have places. `Sentence.text` is the tokens joined by one space, not
    the comment `# text`, because a file of embeddings is searched by its tokens.

    Args:
        source: the file.
        key: of its first sentence; a sentence that is refused takes its key with it.
    Returns:
        The key that the first sentence of the next file has.
    Raises:
        InputError: a line without tabs or the column, an ID that does not follow the one before;
            and as `Source.lines` and `Source.admits`.
    Source: https://universaldependencies.org/format.html
    """
    columns = ConlluColumns(source.settings.column or 2)
    return (yield from _read(source, key, source.lines(), columns))


def read_conll(source: Source, key: int) -> Generator[Sentence, None, int]:
    """The sentences of a file with a token a line, in columns, and blank lines between sentences.

    Columns are parted by tabs if the first line with a token has one, so that a token may hold
    spaces, else by spaces. Without `column` the token is in column 4 if the file begins with
    `#begin document (id); part n` (CoNLL-2012), in 2 if column 1 counts the words of the first
    sentences (CoNLL-X, 2009, SemEval-2010), else in 1 (CoNLL-2000, 2002, 2003, WNUT), but in 4
    below another `#begin document`. `-DOCSTART-` begins a document, and so does `#begin document`;
    in the first form its key is `id_n` as e2e-coref makes it, otherwise what stands behind.

    Args, Returns: as `read_conllu`.
    Raises:
        InputError: a line that lacks the column; and as `Source.lines` and `Source.admits`.
    """
    head, lines = head_of(source.lines())
    columns = recognised(source, head)
    return (yield from _read(source, key, chain(head, lines), columns))


def _read(
    source: Source, key: int, lines: Iterable[str | None], columns: Columns
) -> Generator[Sentence, None, int]:
    draft = _Draft(source, key)
    for number, line in enumerate(chain(lines, [""]), 1):  # the last sentence may lack a blank line
        if line is None:
            draft.refuse(number)
        elif columns.parts_sentences(line):
            sentence = draft.close()
            if sentence:
                yield sentence
            draft.begin_document(columns.document(line))
        else:
            draft.begin_document(columns.document(line))
            _add_row(draft, source, columns, line, number)
    return draft.key


def _add_row(draft: _Draft, source: Source, columns: Columns, line: str, number: int) -> None:
    if draft.refused:
        return
    try:
        draft.add(columns.token(line, draft.n_tokens), number)
    except LineError as error:
        source.refuse(number, error.what, error.hint)
        draft.refuse(number)


class _Draft:
    """The sentence that is being read."""

    def __init__(self, source: Source, key: int) -> None:
        self.key = key
        self._source = source
        self._document = Document()
        self._clear()

    def _clear(self) -> None:
        self._tokens: list[str] = []
        self.n_tokens = 0
        self.refused = False
        self._line = 0

    def add(self, token: str | None, line: int) -> None:
        """One token more; beyond the most that is taken they are counted, but not kept."""
        if token is None:
            return
        self._line = self._line or line
        self.n_tokens += 1
        if self.n_tokens <= self._source.settings.max_tokens:
            self._tokens.append(token)

    def refuse(self, line: int) -> None:
        """Give the sentence up, as one of its lines can't be read."""
        self.refused = True
        self._line = self._line or line
        self._tokens.clear()

    def begin_document(self, begun: tuple[str | None] | None) -> None:
        if begun is not None:
            self._document.begin(begun[0])

    def close(self) -> Sentence | None:
        """The sentence; None if there is none, or if it was refused: then its key is left out."""
        if not (self.n_tokens or self.refused):
            return None
        taken = not self.refused and self._source.admits(self.n_tokens, self._line)
        sentence = None
        if taken:
            text = " ".join(self._tokens)
            name = self._source.name
            sentence = self._document.sentence(self._tokens, self.key, text, name, self._line)
        self._document.advance(taken)
        self.key += 1
        self._clear()
        return sentence
