"""From a paragraph of raw English to sentences and tokens, like the bundled model's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from elmo_cli.isolate import start_up_not_counted
from elmo_cli.text.input_settings import InputSettings

# Bits of Punkt's orthographic context: seen inside a sentence with a capital, in lower case.
_UPPER = 1 << 2
_LOWER = 1 << 5

# Quotes as nltk's rules know them, one character for one, so that positions in the text stay.
_STRAIGHT = str.maketrans("“”„‟‘’‚‛", "\"\"\"\"''''")
_ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"]*[^\s<>\".,;:!?')\]]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\w&(?=\w)"
)

# Longer text without whitespace is no word: data, or a script without spaces. It becomes a
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
_INITIALISM = re.compile(r"(?:^|[\s\"'(\[—–])(?:[^\W\d_]\.){2,}$")
_STARTS_LOWER = re.compile(r"[a-z]+\b")
# Abbreviations that always keep their full stop, also as the last word of a sentence.
_WITH_STOP = re.compile(
    r"\b(?:(?:[^\W\d_]\.){2,}|Ph\.D\.|M\.Sc\.|B\.Sc\.|etc\.|vs\.|approx\.|(?<=et )al\."
    rf"|(?:Jr|Sr|Esq|Inc|Ltd|Co|Corp|Bros|St|Ave|Blvd|Jan|Feb|Aug|Sept|Oct|Nov|Dec|{_TITLES})\.)"
)


class SplitSentence(NamedTuple):
    """A sentence of a text before it has a key: its tokens and its text."""

    tokens: list[str]
    text: str


SentenceSplitter = Callable[[str], list[SplitSentence]]


def sentence_splitter(settings: InputSettings) -> SentenceSplitter:
    """Make a function from a text to the sentences in it.

    With `tokenize` there are as many as the tokenizer finds in the lines of the text; otherwise
    one, whose tokens are separated by whitespace.
    """
    if settings.tokenize:
        return EnglishTokenizer().split
    max_tokens = settings.max_tokens

    def split_at_white_space(text: str) -> list[SplitSentence]:
        # One token more is enough to refuse a huge line, in little memory.
        return [SplitSentence(text.split(None, max_tokens), text.strip())]

    return split_at_white_space


class EnglishTokenizer:
    """Sentences and tokens of English running text.

    Sentences are found by Punkt (Kiss and Strunk 2006, as in nltk) with parameters trained on the
    bundled model's kind of text. Tokens are those of nltk's word tokenizer (Penn Treebank style:
    `do n't`, `Mr.`), except that each is a substring of the text: quotes and brackets are not
    replaced, addresses are not split, and abbreviations keep their full stop (`in the U.S.`).
    """

    def split(self, text: str) -> list[SplitSentence]:
        """The sentences of a text; each line is a paragraph."""
        sentences = []
        for paragraph in text.split("\n"):
            for tokens in self.sentences(paragraph):
                sentences.append(SplitSentence(tokens, " ".join(tokens)))
        return sentences

    def sentences(self, paragraph: str) -> list[list[str]]:
        """The tokens of each sentence; their concatenation is the paragraph without whitespace."""
        sentences = []
        for piece in _NO_WORD.split(paragraph):
            if _NO_WORD.fullmatch(piece):
                sentences.append([piece])
            else:
                sentences.extend(self._sentences_of_words(piece))
        return sentences

    def _sentences_of_words(self, text: str) -> list[list[str]]:
        plain = _ADDRESS.sub(_masked, text.translate(_STRAIGHT))
        sentences = []
        for begin, end in self._spans(plain):
            sentences.append(self._tokens(text[begin:end], plain[begin:end]))
        return sentences

    def _spans(self, plain: str) -> Iterator[tuple[int, int]]:
        """The start and the end of each sentence of a paragraph."""
        spans = self._punkt.span_tokenize(plain)
        first_span = next(spans, None)
        if first_span is None:
            return
        begin, end = first_span
        for next_begin, next_end in spans:
            # No rule needs more context; to search a whole long sentence is quadratic.
            last = plain[max(begin, end - _TOO_LONG) : end]
            if not _continues(last, plain[next_begin:next_end]):
                yield begin, end
                begin = next_begin
            end = next_end
        yield begin, end

    def _tokens(self, written: str, plain: str) -> list[str]:
        """The tokens of a sentence; `plain` has straight quotes, and addresses masked."""
        plain = _WITH_STOP.sub(_masked, plain)
        tokens = []
        end = 0  # of the token before
        for token in self._treebank.tokenize(plain):
            start = plain.index(token, end)
            end = start + len(token)
            tokens.append(written[start:end])
        return tokens

    # nltk takes half a second to import, and tokenized text does not need it.

    @cached_property
    def _punkt(self) -> Any:
        with start_up_not_counted():  # nltk imports scipy and scikit-learn where they are installed
            from nltk.tokenize.punkt import (
                PunktLanguageVars,
                PunktParameters,
                PunktSentenceTokenizer,
            )

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
        for word in trained["lower_case_words"].split():
            parameters.add_ortho_context(word, _LOWER)
        for word in trained["words_and_names"].split():
            parameters.add_ortho_context(word, _LOWER | _UPPER)
        return PunktSentenceTokenizer(parameters, lang_vars=Variables())

    @cached_property
    def _treebank(self) -> Any:
        from nltk.tokenize import NLTKWordTokenizer

        treebank = NLTKWordTokenizer()
        treebank.PARENS_BRACKETS = _without_timeout(treebank.PARENS_BRACKETS)
        treebank.DOUBLE_DASHES = _without_timeout(treebank.DOUBLE_DASHES)
        # nltk would write `` and '' for the quotes; here they only become tokens.
        before = r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n|em|tis|twas|til|cause)\b)(?=\w)"
        quotes = (re.compile(r'([«»„“”]|"|\'\'|`+)'), r" \1 ")
        treebank.STARTING_QUOTES = [quotes, (re.compile(before), "' ")]
        ending_quotes = [_without_timeout(rule) for rule in treebank.ENDING_QUOTES]
        treebank.ENDING_QUOTES = [rule for rule in ending_quotes if "''" not in rule[1]]
        # A full stop before a quote that closes inside the sentence: "I am here." he said.
        inner_stop = re.compile(r"(?<=[^\s.])\.(?=(?: ?\"|['’)\]}])+(?:\s|[—–]|$))")
        treebank.PUNCTUATION = [
            (inner_stop, " . "),
            (re.compile("…"), " … "),
            *(_without_timeout(rule) for rule in treebank.PUNCTUATION),
        ]
        return treebank


def _without_timeout(rule: tuple[Any, str]) -> tuple[Any, str]:
    """A rule without nltk 3.10's limit of five seconds per search, for long paragraphs."""
    pattern, replacement = rule
    if isinstance(pattern, re.Pattern):
        return rule
    from nltk import redos

    return redos.compile(pattern, timeout=None), replacement


def _masked(match: re.Match[str]) -> str:
    """As many letters, which no rule splits."""
    return "x" * len(match.group())


def _continues(last: str, following: str) -> bool:
    """Whether a sentence that Punkt ended with `last` continues with `following`."""
    if _BEFORE_NUMBER.search(last) and not _NEVER_LAST.search(last):
        return _STARTS_NUMBER.match(following) is not None
    if following[0] in ".…!?,;:)]}" or _NEVER_LAST.search(last):
        return True
    # `He met I.B.M. on Monday`, `"Listen!" cried Billy`, `well... perhaps`
    may_continue = _INITIALISM.search(last) or _END_OF_SPEECH.search(last)
    return bool(may_continue and _STARTS_LOWER.match(following))
