"""EnglishTokenizer: from a paragraph of raw text to sentences and tokens, split like the training
text of the bundled model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from typing import Any

# Bits of Punkt's orthographic context: seen inside a sentence with a capital, in lower case.
_UPPER, _LOWER = 1 << 2, 1 << 5

# Quotes as nltk's rules know them, one character for one, so that positions in the text stay.
_STRAIGHT = str.maketrans("“”„‟‘’‚‛", "\"\"\"\"''''")
_ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"]*[^\s<>\".,;:!?')\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\w&(?=\w)"
)

# Longer text without white space is no word: data, or a script without spaces. It becomes a
# sentence of its own, because the rules below would take quadratic time.
_TOO_LONG = 500  # characters
_NO_WORD = re.compile(rf"(\S{{{_TOO_LONG},}})")

# The word after a title has a capital and still belongs to the same sentence.
_TITLES = (
    "Mr Mrs Ms Messrs Mme Mlle Dr Drs Prof Rev Hon Gen Col Maj Capt Lt Sgt Cpl Gov Sen Rep Supt"
)
_NEVER_LAST = re.compile(
    rf"(?:^|[\s\"'(\[—–])(?:{'|'.join(_TITLES.split())}|e\.g|i\.e|viz|cf|vs|approx)\.$"
)
# Words too, unless a number follows.
_BEFORE_NUMBER = re.compile(
    r"(?:^|[\s\"'(\[—–])"
    r"(?:[Nn]os?|[Aa]rts?|[Ff]igs?|[Ss]ecs?|[Cc]hap|[Pp]aras?|pp?|[Vv]ols?|[Ee]qs?|et al)\.$"
)
_STARTS_NUMBER = re.compile(r"[(\[]?(?:\d|(?:[IVXL]{2,}|[VX])\b)")
_END_OF_SPEECH = re.compile(r"(?:[.?!][\"')\]]+|\. ?\.|…)$")
_NEVER_FIRST = frozenset(".…!?,;:)]}")
_STARTS_LOWER = re.compile(r"[a-z]+\b")

# Abbreviations that always keep their full stop, also as the last word of a sentence.
_WITH_STOP = re.compile(
    r"\b(?:(?:[^\W\d_]\.){2,}|Ph\.D\.|M\.Sc\.|B\.Sc\.|etc\.|vs\.|approx\."
    r"|(?<=et )al\.|(?:Jr|Sr|Esq|Inc|Ltd|Co|Corp|Bros|St|Ave|Blvd|Jan|Feb|Aug|Sept|Oct|Nov|Dec|"
    + "|".join(_TITLES.split())
    + r")\.)"
)


class EnglishTokenizer:
    """Sentences and tokens of English running text.

    Sentences are found by Punkt (Kiss and Strunk 2006, as in nltk) with parameters trained on the
    bundled model's kind of text. Tokens are those of nltk's word tokenizer, in the style of the
    Penn Treebank (`do n't`, `Mr.`, `well-known`), except that each one is a substring of the text:
    quotes and brackets are not replaced, addresses are not split, and an abbreviation that ends a
    sentence keeps its full stop (`in the U.S.`).
    """

    def sentences(self, paragraph: str) -> list[list[str]]:
        """The tokens of each sentence of a paragraph, in order.

        Args:
            paragraph: raw text whose last sentence does not continue in the next paragraph; white
                space, also a line end, only separates words.
        Returns:
            One list of tokens per sentence, none empty. The concatenated tokens are the paragraph
            without white space.
        """
        found: list[list[str]] = []
        for piece in _NO_WORD.split(paragraph):
            found += [[piece]] if _NO_WORD.fullmatch(piece) else self._of_words(piece)
        return found

    def _of_words(self, text: str) -> list[list[str]]:
        plain = _ADDRESS.sub(_masked, text.translate(_STRAIGHT))
        return [
            self._tokens(text[start:end], plain[start:end]) for start, end in self._spans(plain)
        ]

    def _spans(self, plain: str) -> Iterator[tuple[int, int]]:
        """The start and the end of each sentence of a paragraph."""
        span: tuple[int, int] | None = None
        for start, end in self._punkt.span_tokenize(plain):
            if span is not None:
                # No rule needs more context; to search a whole long sentence is quadratic.
                last = plain[max(span[0], span[1] - _TOO_LONG) : span[1]]
                if _continues(last, plain[start:end]):
                    span = span[0], end
                    continue
                yield span
            span = start, end
        if span is not None:
            yield span

    def _tokens(self, written: str, plain: str) -> list[str]:
        """The tokens of a sentence; `plain` has straight quotes, and addresses masked."""
        plain = _WITH_STOP.sub(_masked, plain)
        tokens, start = [], 0
        for token in self._treebank.tokenize(plain):
            start = plain.index(token, start)
            tokens.append(written[start : start + len(token)])
            start += len(token)
        return tokens

    # nltk takes half a second to import, and tokenized text does not need it.

    @cached_property
    def _punkt(self) -> Any:
        from nltk.tokenize.punkt import (
            PunktLanguageVars,
            PunktParameters,
            PunktSentenceTokenizer,
        )

        # This search lasts as long as the paragraph is processed.
        ends = _without_timeout(PunktLanguageVars().period_context_re())

        class Variables(PunktLanguageVars):  # type: ignore[misc]
            def period_context_re(self) -> Any:
                return ends

        trained = json.loads(files(__package__).joinpath("english_punkt.json").read_text("utf-8"))
        parameters = PunktParameters()
        parameters.abbrev_types = set(trained["abbreviations"])
        parameters.collocations = {tuple(pair.split(" ")) for pair in trained["collocations"]}
        parameters.sent_starters = set(trained["sentence_starters"])
        for word in trained["lower_case_words"].split():
            parameters.add_ortho_context(word, _LOWER)
        for word in trained["words_and_names"].split():
            parameters.add_ortho_context(word, _LOWER | _UPPER)
        return PunktSentenceTokenizer(parameters, lang_vars=Variables())

    @cached_property
    def _treebank(self) -> Any:
        from nltk.tokenize import NLTKWordTokenizer

        treebank = NLTKWordTokenizer()
        for name in ("PUNCTUATION", "ENDING_QUOTES"):
            rules = [(_without_timeout(rule), to) for rule, to in getattr(treebank, name)]
            setattr(treebank, name, rules)
        for name in ("PARENS_BRACKETS", "DOUBLE_DASHES"):
            rule, to = getattr(treebank, name)
            setattr(treebank, name, (_without_timeout(rule), to))
        # nltk would write `` and '' for the quotes; here they only become tokens.
        treebank.STARTING_QUOTES = [
            (re.compile(r'([«»„“”]|"|\'\'|`+)'), r" \1 "),
            (
                re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n|em|tis|twas|til|cause)\b)(?=\w)"),
                "' ",
            ),
        ]
        treebank.ENDING_QUOTES = [rule for rule in treebank.ENDING_QUOTES if "''" not in rule[1]]
        # A full stop before a quote that closes inside the sentence: "I am here." he said.
        inner_stop = re.compile(r"(?<=[^\s.])\.(?=(?: ?\"|['’)\]}])+(?:\s|[—–]|$))")
        treebank.PUNCTUATION = [
            (inner_stop, " . "),
            (re.compile("…"), " … "),
            *treebank.PUNCTUATION,
        ]
        return treebank


def _without_timeout(pattern: Any) -> Any:
    """A pattern of nltk without the limit of five seconds per search that nltk 3.10 introduced.

    A long paragraph would raise an error.
    """
    if isinstance(pattern, re.Pattern):
        return pattern
    from nltk import redos

    return redos.compile(pattern, timeout=None)


def _masked(found: re.Match[str]) -> str:
    """Letters instead of something that no rule may split."""
    return "x" * len(found.group())


def _continues(last: str, following: str) -> bool:
    """Whether a sentence that Punkt ended with `last` continues with `following`."""
    if _NEVER_LAST.search(last):
        return True
    if _BEFORE_NUMBER.search(last):
        return _STARTS_NUMBER.match(following) is not None
    if following[0] in _NEVER_FIRST:
        return True
    # "Listen!" cried Billy; well... perhaps
    return _END_OF_SPEECH.search(last) is not None and _STARTS_LOWER.match(following) is not None
