"""From a paragraph of raw English to sentences and tokens, like the bundled model's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.resources import files
from itertools import chain
from typing import Any

from elmo_cli.text.input_settings import InputSettings

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
    "Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Drs|Prof|Rev|Hon|Gen|Col|Maj|Capt|Lt|Sgt|Cpl|Gov|Sen|Rep|Supt"
)
_NEVER_LAST = re.compile(rf"(?:^|[\s\"'(\[—–])(?:{_TITLES}|e\.g|i\.e|viz|cf|vs|approx)\.$")
# Words too, unless a number follows.
_BEFORE_NUMBER = re.compile(
    r"(?:^|[\s\"'(\[—–])"
    r"(?:[Nn]os?|[Aa]rts?|[Ff]igs?|[Ss]ecs?|[Cc]hap|[Pp]aras?|pp?|[Vv]ols?|[Ee]qs?|et al)\.$"
)
_STARTS_NUMBER = re.compile(r"[(\[]?(?:\d|(?:[IVXL]{2,}|[VX])\b)")
_END_OF_SPEECH = re.compile(r"(?:[.?!][\"')\]]+|\. ?\.|…)$")
_STARTS_LOWER = re.compile(r"[a-z]+\b")
# Abbreviations that always keep their full stop, also as the last word of a sentence.
_WITH_STOP = re.compile(
    r"\b(?:(?:[^\W\d_]\.){2,}|Ph\.D\.|M\.Sc\.|B\.Sc\.|etc\.|vs\.|approx\.|(?<=et )al\."
    rf"|(?:Jr|Sr|Esq|Inc|Ltd|Co|Corp|Bros|St|Ave|Blvd|Jan|Feb|Aug|Sept|Oct|Nov|Dec|{_TITLES})\.)"
)

Sentences = list[tuple[list[str], str]]  # the tokens of each, and its text
SentenceSplitter = Callable[[str], Sentences]


def sentence_splitter(settings: InputSettings) -> SentenceSplitter:
    """A function from a text to (tokens, text) of each sentence in it: with `tokenize` as many as
    the tokenizer finds in its lines, otherwise one, whose tokens are separated by white space."""
    if not settings.tokenize:
        most = settings.max_tokens  # one more is enough to refuse a huge line, in little memory
        return lambda text: [(text.split(None, most), text.strip())]
    split = EnglishTokenizer().sentences
    return lambda text: [(s, " ".join(s)) for line in text.split("\n") for s in split(line)]


class EnglishTokenizer:
    """Sentences and tokens of English running text.

    Sentences are found by Punkt (Kiss and Strunk 2006, as in nltk) with parameters trained on the
    bundled model's kind of text. Tokens are those of nltk's word tokenizer (Penn Treebank style:
    `do n't`, `Mr.`), except that each is a substring of the text: quotes and brackets are not
    replaced, addresses are not split, and abbreviations keep their full stop (`in the U.S.`).
    """

    def sentences(self, paragraph: str) -> list[list[str]]:
        """The tokens of each sentence; their concatenation is the paragraph without white space."""
        pieces = _NO_WORD.split(paragraph)
        found = ([[p]] if _NO_WORD.fullmatch(p) else self._of_words(p) for p in pieces)
        return list(chain.from_iterable(found))

    def _of_words(self, text: str) -> list[list[str]]:
        plain = _ADDRESS.sub(_masked, text.translate(_STRAIGHT))
        return [self._tokens(text[a:b], plain[a:b]) for a, b in self._spans(plain)]

    def _spans(self, plain: str) -> Iterator[tuple[int, int]]:
        """The start and the end of each sentence of a paragraph."""
        begin = end = -1
        for start, stop in self._punkt.span_tokenize(plain):
            # No rule needs more context; to search a whole long sentence is quadratic.
            last = plain[max(begin, end - _TOO_LONG) : end]
            if end < 0 or not _continues(last, plain[start:stop]):
                if end >= 0:
                    yield begin, end
                begin = start
            end = stop
        if end >= 0:
            yield begin, end

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
        from nltk.tokenize.punkt import PunktLanguageVars, PunktParameters, PunktSentenceTokenizer

        # This search lasts as long as the paragraph is processed.
        ends, _ = _without_timeout((PunktLanguageVars().period_context_re(), ""))

        class Variables(PunktLanguageVars):  # type: ignore[misc]
            def period_context_re(self) -> Any:
                return ends

        trained = json.loads(files(__package__).joinpath("english_punkt.json").read_text("utf-8"))
        parameters = PunktParameters()
        parameters.abbrev_types = set(trained["abbreviations"])
        parameters.collocations = {tuple(pair.split(" ")) for pair in trained["collocations"]}
        parameters.sent_starters = set(trained["sentence_starters"])
        for name, seen in (("lower_case_words", _LOWER), ("words_and_names", _LOWER | _UPPER)):
            for word in trained[name].split():
                parameters.add_ortho_context(word, seen)
        return PunktSentenceTokenizer(parameters, lang_vars=Variables())

    @cached_property
    def _treebank(self) -> Any:
        from nltk.tokenize import NLTKWordTokenizer

        treebank = NLTKWordTokenizer()
        for name in ("PUNCTUATION", "ENDING_QUOTES"):
            setattr(treebank, name, list(map(_without_timeout, getattr(treebank, name))))
        for name in ("PARENS_BRACKETS", "DOUBLE_DASHES"):
            setattr(treebank, name, _without_timeout(getattr(treebank, name)))
        # nltk would write `` and '' for the quotes; here they only become tokens.
        before = r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n|em|tis|twas|til|cause)\b)(?=\w)"
        quotes = (re.compile(r'([«»„“”]|"|\'\'|`+)'), r" \1 ")
        treebank.STARTING_QUOTES = [quotes, (re.compile(before), "' ")]
        treebank.ENDING_QUOTES = [rule for rule in treebank.ENDING_QUOTES if "''" not in rule[1]]
        # A full stop before a quote that closes inside the sentence: "I am here." he said.
        inner_stop = re.compile(r"(?<=[^\s.])\.(?=(?: ?\"|['’)\]}])+(?:\s|[—–]|$))")
        inner = [(inner_stop, " . "), (re.compile("…"), " … ")]
        treebank.PUNCTUATION = [*inner, *treebank.PUNCTUATION]
        return treebank


def _without_timeout(rule: tuple[Any, str]) -> tuple[Any, str]:
    """A rule without nltk 3.10's limit of five seconds per search, for long paragraphs."""
    if isinstance(rule[0], re.Pattern):
        return rule
    from nltk import redos

    return redos.compile(rule[0], timeout=None), rule[1]


def _masked(found: re.Match[str]) -> str:  # letters, which no rule splits
    return "x" * len(found.group())


def _continues(last: str, following: str) -> bool:
    """Whether a sentence that Punkt ended with `last` continues with `following`."""
    if _BEFORE_NUMBER.search(last) and not _NEVER_LAST.search(last):
        return _STARTS_NUMBER.match(following) is not None
    # "Listen!" cried Billy; well... perhaps
    is_speech = _END_OF_SPEECH.search(last) and _STARTS_LOWER.match(following)
    return bool(following[0] in ".…!?,;:)]}" or _NEVER_LAST.search(last) or is_speech)
