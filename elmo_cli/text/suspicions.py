"""Suspicions: signs in the first sentences that a text is not what it is read as."""

from __future__ import annotations

import re
from collections import Counter

from elmo_cli.text.notes import Notes
from elmo_cli.text.sentence import Sentence

N_JUDGED = 200  # sentences that are looked at
_N_CHARACTERS = 100_000  # of a sentence that are looked at, so that a huge line costs nothing

# Two letters, so that initials do not count; not more, or a long word would be searched for ever.
_UNSPLIT_INSIDE = re.compile(r"[^\W\d_]{2}[,;?!](?:\s|\Z)")
_UNSPLIT_LAST = re.compile(r"[^\W\d_]{2}[.?!][\"'”’)\]]*\Z")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_BORDERS = frozenset({"<S>", "</S>", "<s>", "</s>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]"})
_COLUMN_MARK = re.compile(
    r"-DOCSTART-|#begin document \(|# (?:newdoc|newpar|sent_id|text)\b.*(?:=|\Z)"
)
_LABEL = re.compile(r"O|[BIESLU]-[\w-]+")
_LONG_TOKEN = 100  # bytes


class Suspicions:
    """Looks at the first sentences of the input and warns, each kind once.

    Args:
        notes: takes the warnings.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._n_judged = 0
        self._places: dict[str, str] = {}  # kind -> the first place
        self._counts: Counter[str] = Counter()
        self._widths: Counter[tuple[bool, int]] = Counter()  # (by tabs, columns) -> sentences
        self._first = ""

    def look_at(self, sentence: Sentence) -> None:
        """Look at one sentence with tokens, if it is among the first; after the last, report."""
        if self._n_judged == N_JUDGED:
            return
        self._look_at(sentence)
        self._n_judged += 1
        if self._n_judged == N_JUDGED:
            self.report()

    def _look_at(self, sentence: Sentence) -> None:
        self._first = self._first or sentence.where
        text = sentence.text[:_N_CHARACTERS]
        if _UNSPLIT_LAST.search(text) or _UNSPLIT_INSIDE.search(text):
            self._count("untokenised", sentence)
        if _ENTITY.search(text):
            self._count("escaped", sentence)
        # Alone on its line a border is the entry of a vocabulary.
        if len(sentence.tokens) > 1 and not _BORDERS.isdisjoint(sentence.tokens):
            self._count("borders", sentence)
        if len(sentence.tokens) == 1 and len(sentence.tokens[0].encode()) > _LONG_TOKEN:
            self._count("unparted", sentence)
        self._look_for_columns(text, sentence)

    def report(self) -> None:
        """Warn about what was seen; also to be called at the end, as the input may be short."""
        if self._counts["untokenised"] > 0.3 * self._n_judged:
            self._warn("untokenised", "looks untokenised, with commas and stops on the words")
        if self._counts["escaped"]:
            self._warn("escaped", "escapes as in HTML (&amp; &quot;), which are read as they stand")
        if self._counts["borders"]:
            self._warn("borders", "borders or padding (<S>, </S>, <PAD>) given as tokens")
        if self._counts["unparted"] > 0.1 * self._n_judged:
            self._warn(
                "unparted", f"a line of over {_LONG_TOKEN} bytes without white space, one token"
            )
        if self._looks_like_columns():
            self._warn("columns", "looks like columns, a token a line, but each line is a sentence")

    def _look_for_columns(self, text: str, sentence: Sentence) -> None:
        if _COLUMN_MARK.match(text):
            self._count("mark", sentence)
        n_tabs = text.count("\t")
        if n_tabs:
            self._widths[True, n_tabs + 1] += 1
        elif len(sentence.tokens) > 1 and _LABEL.fullmatch(sentence.tokens[-1]):
            self._widths[False, len(sentence.tokens)] += 1

    def _looks_like_columns(self) -> bool:
        if self._counts["mark"]:
            return True
        [((by_tabs, n_columns), n)] = self._widths.most_common(1) or [((False, 0), 0)]
        enough = n >= 5 and n > 0.8 * self._n_judged
        return enough and (not by_tabs or n_columns >= 3)

    def _count(self, kind: str, sentence: Sentence) -> None:
        self._counts[kind] += 1
        self._places.setdefault(kind, sentence.where)

    def _warn(self, kind: str, what: str) -> None:
        place = self._places.get(kind) or self._places.get("mark") or self._first
        self._notes.warn(kind, f"{place}: {what}; {_ADVICE[kind]}")


_ADVICE = {
    "untokenised": "`--tokenize` takes raw text apart",
    "escaped": "unescape the text first",
    "borders": "the biLM adds its own borders and needs no padding",
    "unparted": "part the tokens by spaces",
    "columns": "`--input-format conll` or `--input-format conllu` reads them",
}
