"""InputChecker: signs in the first sentences that a text is not what it is read as."""

from __future__ import annotations

import re
from collections import Counter

from elmo_cli.text.input_settings import InputReport
from elmo_cli.text.sentence import Sentence

N_CHECKED = 200  # sentences
MAX_CHARACTERS = 100_000  # of a sentence; the patterns must not search a line of megabytes

# Two letters, so that initials do not count; not more, because a long word would take quadratic
# time.
_PUNCTUATED_WORD = re.compile(r"[^\W\d_]{2}[,;?!](?:\s|\Z)")
_PUNCTUATED_END = re.compile(r"[^\W\d_]{2}[.?!][\"'”’)\]]*\Z")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_BOUNDARIES = frozenset({"<S>", "</S>", "<s>", "</s>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]"})
_COLUMN_MARK = re.compile(
    r"-DOCSTART-|#begin document \(|# (?:newdoc|newpar|sent_id|text)\b.*(?:=|\Z)"
)
_LABEL = re.compile(r"O|[BIESLU]-[\w-]+")
_JSON = re.compile(r"[\[{]\s*[\"\[{]")
_LONG_TOKEN = 100  # bytes

_WARNINGS = {
    "untokenized": "looks untokenized, with commas and full stops on the words; "
    "`tokenize=True` splits raw text",
    "escaped": "escapes as in HTML (&amp; &quot;), which are read as they are; "
    "unescape the text first",
    "boundary-tokens": "boundary or padding tokens (<S>, </S>, <PAD>) in the text; "
    "the biLM adds its own boundaries and needs no padding",
    "no-spaces": f"a line of over {_LONG_TOKEN} bytes without white space, one token; "
    "separate the tokens by spaces",
    "columns": "looks like columns, but each line is read as one sentence, labels as its tokens; "
    "`format='conll'` or `format='conllu'` reads one token per line, `cut -f` takes one column out",
    "json": "looks like JSON, but is read as plain text; `format='jsonl'` reads JSON lines",
}


class InputChecker:
    """Check the first sentences of the input and warn, each kind once.

    Args:
        report: receives the warnings.
    """

    def __init__(self, report: InputReport) -> None:
        self._report = report
        self._n_checked = 0
        self._first: dict[str, str] = {}  # kind -> where it was first seen
        self._counts: Counter[str] = Counter()
        self._widths: Counter[tuple[bool, int]] = Counter()  # (with tabs, columns) -> sentences

    def check(self, sentence: Sentence) -> None:
        """Check a sentence with tokens if it is among the first; after the last of them, warn."""
        if self._n_checked == N_CHECKED:
            return
        self._check(sentence)
        self._n_checked += 1
        if self._n_checked == N_CHECKED:
            self.finish()

    def finish(self) -> None:
        """Warn about what was seen; also to be called at the end, as the input may be short."""
        n, counts = self._n_checked, self._counts
        if counts["untokenized"] > 0.3 * n:
            self._warn("untokenized")
        if counts["no-spaces"] > 0.1 * n:
            self._warn("no-spaces")
        if counts["mark"] or self._looks_like_columns():
            self._warn("columns")
        for kind in ("escaped", "boundary-tokens", "json"):
            if counts[kind]:
                self._warn(kind)

    def _check(self, sentence: Sentence) -> None:
        text, tokens = sentence.text[:MAX_CHARACTERS], sentence.tokens
        self._first.setdefault("any", sentence.where)
        if _PUNCTUATED_END.search(text) or _PUNCTUATED_WORD.search(text):
            self._count("untokenized", sentence)
        if _ENTITY.search(text):
            self._count("escaped", sentence)
        # Alone on its line a boundary token is the entry of a vocabulary.
        if len(tokens) > 1 and not _BOUNDARIES.isdisjoint(tokens):
            self._count("boundary-tokens", sentence)
        if len(tokens) == 1 and len(tokens[0].encode()) > _LONG_TOKEN:
            self._count("no-spaces", sentence)
        if not self._n_checked and _JSON.match(text):
            self._count("json", sentence)
        if _COLUMN_MARK.match(text):
            self._count("mark", sentence)
        if n_tabs := text.count("\t"):
            self._widths[True, n_tabs + 1] += 1
        elif len(tokens) > 1 and _LABEL.fullmatch(tokens[-1]):
            self._widths[False, len(tokens)] += 1

    def _looks_like_columns(self) -> bool:
        """Whether nearly all lines have equally many columns, the last of them a label."""
        [((has_tabs, _), n)] = self._widths.most_common(1) or [((False, 0), 0)]
        return n >= (2 if has_tabs else 3) and n > 0.8 * self._n_checked

    def _count(self, kind: str, sentence: Sentence) -> None:
        self._counts[kind] += 1
        self._first.setdefault(kind, sentence.where)

    def _warn(self, kind: str) -> None:
        mark = self._first.get("mark") if kind == "columns" else None
        where = self._first.get(kind) or mark or self._first["any"]
        self._report.warn(kind, f"{where}: {_WARNINGS[kind]}")
