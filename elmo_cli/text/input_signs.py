"""Signs that a text is not what it is read as: untokenized, escaped, JSON, another script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from elmo_cli.text.input_report import InputReport
from elmo_cli.text.sentence import Tokens

N_CHECKED = 200  # sentences that are enough to see what a text is
_TOKENS_CHECKED = 10_000  # of the first sentences, which a run checks before it computes any
_MAX_CHARACTERS = 100_000  # of a sentence; the patterns must not search a line of megabytes
_N_LETTERS = 100  # at the beginning of a sentence
# Two letters, so that initials do not count; not more, which would take quadratic time.
_PUNCTUATED = re.compile(r"[^\W\d_]{2}(?:[,;?!](?:\s|\Z)|[.?!][\"'”’)\]]*\Z)")
_BOUNDARIES = {
    "<S>", "</S>", "<s>", "</s>", "<bos>", "<eos>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]",
}  # fmt: skip
_RESIDUES = re.compile(r"[A-Z*-]{30,}")
# `&apos;` and others of the Moses tokenizer, most of which are HTML too; `& apos ;` if tokenized
_ESCAPE = re.compile(r"& ?(?:amp|apos|quot|lt|gt|nbsp|# ?\d{1,4}) ?;")
_JSON = re.compile(r"[\[{]\s*[\"\[{]")
_REPR = re.compile(r"\[\s*['(]|\(\s*'|b['\"]")
_TREE = re.compile(r"\( ?[^\s()]{0,12} ?\(")
_TAG_SEPARATORS = "_/|"
_MOST_TAGGED = 0.9  # of the tokens of a sentence; a few may have lost their tag
_SUBWORD = re.compile(r"(?<!\S)(?:[\u2581\u0120]|##\w|@[-,.]@(?!\S))|\S@@(?!\S)")
_ELEMENTS = (
    "a|b|body|chapter|div|doc|em|font|h[1-6]|head|i|li|ol|p|ref|span|speaker|strong|sub|sup|table|"
    "td|title|tr|u|ul"
)
_MARKUP = re.compile(rf"< ?br ?/? ?>|</?(?:{_ELEMENTS})(?:\s[^<>]*)?>", re.IGNORECASE)
_PLACEHOLDERS = {"<unk>", "<UNK>", "[UNK]", "[MASK]", "<mask>"}
_WITHHELD = ({"_"}, {"[WORD]"})  # in CoNLL-U, and in the `_skel` files of OntoNotes
_BACKSLASH = re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|[.!?\"] ?\\[nt](?![a-z])")
_SUBTITLES = re.compile(r"\d\d:\d\d:\d\d[,.]\d{3} --> ")
_FIELDS = re.compile(r"__label__\S| \|\|\| ")
_FIRST_OF_UTF8 = "ÂÃÄÅâ"  # how Latin-1, Latin Extended-A and general punctuation begin
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DECOMPOSED = re.compile(r"[A-Za-z][\u0300-\u036f]")
_LATIN = "A-Za-z\u00c0-\u024f"
_INVISIBLE = "[\u00ad\u200b\u200e\u200f\u2060]"  # other scripts and emoji need the joiners
_HIDDEN = re.compile(f"[{_LATIN}]{_INVISIBLE}|{_INVISIBLE}[{_LATIN}]|(?<!\\S){_INVISIBLE}+(?!\\S)")


@dataclass(frozen=True)
class InputSign:
    """A sign that a text is not what it is read as.

    Attributes:
        kind: of the warning, of which a report has one.
        is_shown: whether a sentence, by its text and its tokens, shows the sign.
        fraction: the text is warned of if more of its first sentences show the sign.
        warning: what the text looks like, and what to do about it.
    """

    kind: str
    is_shown: Callable[[str, Tokens], bool]
    fraction: float
    warning: str


class SampledSentence(NamedTuple):
    """A sentence with tokens, and its file and line for messages."""

    text: str
    tokens: Tokens
    where: str


@dataclass
class TextSample:
    """The first sentences with tokens of a text, as many as show what it is."""

    sentences: list[SampledSentence] = field(default_factory=list)
    _n_tokens: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no more sentences are needed."""
        return len(self.sentences) >= N_CHECKED or self._n_tokens >= _TOKENS_CHECKED

    def add(self, text: str, tokens: Tokens, where: str) -> None:
        """Add a sentence that has tokens."""
        self.sentences.append(SampledSentence(text, tokens, where))
        self._n_tokens += len(tokens)


def warn_of_signs(sample: TextSample, report: InputReport, signs: Iterable[InputSign]) -> None:
    """Warn if the first sentences of a text look like something else, once for each sign."""
    for sign in signs:
        showing = []
        for sentence in sample.sentences:
            if sign.is_shown(sentence.text[:_MAX_CHARACTERS], sentence.tokens):
                showing.append(sentence)
        if len(showing) > sign.fraction * len(sample.sentences):
            report.warn(sign.kind, f"{showing[0].where}: {sign.warning}")


def signs_of_text(*, any_script: bool = False) -> tuple[InputSign, ...]:
    """Return the signs that are looked for in a text.

    Args:
        any_script: whether the text may be in another script than Latin.
    """
    return _SIGNS_OF_TEXT if any_script else (*_SIGNS_OF_TEXT, SCRIPT_SIGN)


def _has_attached_punctuation(text: str, tokens: Tokens) -> bool:
    without_escapes = _ESCAPE.sub("'", text)  # which end in a semicolon
    return _PUNCTUATED.search(without_escapes) is not None


def _has_escapes(text: str, tokens: Tokens) -> bool:
    return _ESCAPE.search(text) is not None


def _has_boundary_tokens(text: str, tokens: Tokens) -> bool:
    # Alone on its line a boundary token is the entry of a vocabulary.
    return len(tokens) > 1 and not _BOUNDARIES.isdisjoint(tokens)


def _starts_like_json(text: str, tokens: Tokens) -> bool:
    return _JSON.match(text) is not None


def _is_found(pattern: re.Pattern[str], text: str, tokens: Tokens) -> bool:
    """Whether a sentence contains a pattern."""
    return pattern.search(text) is not None


def _is_at_start(pattern: re.Pattern[str], text: str, tokens: Tokens) -> bool:
    """Whether a sentence begins with a pattern."""
    return pattern.match(text.lstrip()) is not None


def _is_tagged(text: str, tokens: Tokens) -> bool:
    """Whether nearly all tokens are joined with a tag, as in `The_DT cat_NN`."""
    if len(tokens) < 3:
        return False
    for separator in _TAG_SEPARATORS:
        n_tagged = sum(separator in token[1:-1] for token in tokens)
        if n_tagged >= _MOST_TAGGED * len(tokens):
            return True
    return False


def _has_placeholders(text: str, tokens: Tokens) -> bool:
    # Alone on its line a placeholder is the entry of a vocabulary.
    return len(tokens) > 1 and not _PLACEHOLDERS.isdisjoint(tokens)


def _has_no_words(text: str, tokens: Tokens) -> bool:
    return len(tokens) > 1 and set(tokens) in _WITHHELD


def _is_encoded_twice(text: str, tokens: Tokens) -> bool:
    """Whether all characters outside ASCII are those of UTF-8 that was read as Windows-1252.

    A text may contain such a sequence by chance, but hardly without other such characters.
    """
    runs = _NOT_ASCII.findall(text)
    return bool(runs) and all(map(_is_utf8_of_windows, runs))


def _is_utf8_of_windows(characters: str) -> bool:
    """Whether the bytes of characters in Windows-1252 are UTF-8 of letters or punctuation."""
    if characters[0] not in _FIRST_OF_UTF8:
        return False
    try:
        characters.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return False
    return True


def _is_decomposed(text: str, tokens: Tokens) -> bool:
    """Whether a Latin letter and its accent are two characters, although there is one for both."""
    pairs = _DECOMPOSED.findall(text)
    return any(len(unicodedata.normalize("NFC", pair)) == 1 for pair in pairs)


def _is_one_word_of_residues(text: str, tokens: Tokens) -> bool:
    return _RESIDUES.fullmatch(text) is not None


def _is_not_latin(text: str, tokens: Tokens) -> bool:
    """Whether most letters at the beginning of a sentence are of another script."""
    letters = [character for character in text[:_N_LETTERS] if character.isalpha()]
    n_latin = sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters)
    return 2 * n_latin < len(letters)


_UNTOKENIZED = InputSign(
    kind="untokenized",
    is_shown=_has_attached_punctuation,
    fraction=0.3,
    warning="looks untokenized; `tokenize=True` splits raw text",
)
_UNTOKENIZED_DATA = replace(
    _UNTOKENIZED,
    warning="looks untokenized; the biLM was trained on text in which punctuation marks are tokens",
)
_ESCAPES = InputSign(
    kind="escapes",
    is_shown=_has_escapes,
    fraction=0.0,
    warning="escapes such as `&apos;` or `&amp;`, as the Moses tokenizer or HTML writes them; the "
    "biLM was trained on the characters, which `deescape-special-chars.perl` of Moses restores",
)
_BOUNDARY_TOKENS = InputSign(
    kind="boundary-tokens",
    is_shown=_has_boundary_tokens,
    fraction=0.0,
    warning="boundary or padding tokens (<S>, <bos>, <PAD>); the biLM adds its own",
)
_JSON_LINES = InputSign(
    kind="json",
    is_shown=_starts_like_json,
    fraction=0.5,
    warning="looks like JSON, but is read as plain text; `format='jsonl'` reads JSON lines",
)
_SEQUENCES = InputSign(
    kind="fasta",
    is_shown=_is_one_word_of_residues,
    fraction=0.3,
    warning="looks like sequences of residues, but each line is read as one token; "
    "`format='fasta'` reads FASTA, which has a header before each sequence",
)
SCRIPT_SIGN = InputSign(
    kind="script",
    is_shown=_is_not_latin,
    fraction=0.5,
    warning="not in Latin script; use a model that was trained on its language",
)
_REPRS = InputSign(
    kind="repr",
    is_shown=partial(_is_at_start, _REPR),
    fraction=0.5,
    warning="looks like lists or bytes as Python prints them; write tokens, separated by spaces",
)
_FIELDS_OF_OTHERS = InputSign(
    kind="fields",
    is_shown=partial(_is_found, _FIELDS),
    fraction=0.5,
    warning="labels (`__label__`) or translations (`|||`) are read as tokens; take them out first",
)
_SUBTITLE_TIMES = InputSign(
    kind="subtitles",
    is_shown=partial(_is_found, _SUBTITLES),
    fraction=0.1,
    warning="looks like subtitles, whose numbers and times are read as sentences; take them out",
)
_TAGGED_TOKENS = InputSign(
    kind="tagged",
    is_shown=_is_tagged,
    fraction=0.5,
    warning="tokens seem to be joined with tags, as in `The_DT` or `The/DT`, which are read as a "
    "part of the word; take the tags out first",
)
_TREES = InputSign(
    kind="trees",
    is_shown=partial(_is_at_start, _TREE),
    fraction=0.5,
    warning="looks like trees, whose brackets and labels are read as tokens; give the words alone",
)
_BACKSLASHES = InputSign(
    kind="backslashes",
    is_shown=partial(_is_found, _BACKSLASH),
    fraction=0.05,
    warning="escapes such as `\\u00e9` or `\\n`, as programs write them; the biLM was trained on "
    "the characters",
)
_SUBWORDS = InputSign(
    kind="subwords",
    is_shown=partial(_is_found, _SUBWORD),
    fraction=0.1,
    warning="marks of pieces of words or of joined tokens (`@@`, `##`, `@-@`); the biLM was "
    "trained on whole words, without marks",
)
_TAGS = InputSign(
    kind="markup",
    is_shown=partial(_is_found, _MARKUP),
    fraction=0.02,  # a text may speak of them
    warning="tags of HTML or XML, such as `<br />`, are read as tokens; take them out first",
)
_UNKNOWN_WORDS = InputSign(
    kind="placeholders",
    is_shown=_has_placeholders,
    fraction=0.0,
    warning="placeholders of words, such as `<unk>`; the biLM reads the characters of every word, "
    "so give a text that contains the words",
)
_WITHHELD_WORDS = InputSign(
    kind="withheld",
    is_shown=_has_no_words,
    fraction=0.0,
    warning="the words are withheld, and `_` or `[WORD]` is read instead; add them with the "
    "program of the data set",
)
_ENCODED_TWICE = InputSign(
    kind="encoded-twice",
    is_shown=_is_encoded_twice,
    fraction=0.0,
    warning="looks encoded twice, as in `cafÃ©` or `donâ€™t`: UTF-8 was read as Windows-1252; "
    "convert the original again",
)
_REPLACED = InputSign(
    kind="replaced",
    is_shown=partial(_is_found, re.compile("\ufffd")),
    fraction=0.0,
    warning="characters were lost and replaced by U+FFFD; convert the original again, with its "
    "encoding",
)
_DECOMPOSED_LETTERS = InputSign(
    kind="decomposed",
    is_shown=_is_decomposed,
    fraction=0.0,
    warning="letters and their accents are two characters each (NFD), so that words have another "
    "spelling for the biLM; `uconv -x nfc` joins them",
)
_HIDDEN_CHARACTERS = InputSign(
    kind="hidden",
    is_shown=partial(_is_found, _HIDDEN),
    fraction=0.0,
    warning="invisible characters in or between words, such as a soft hyphen (U+00AD) or a "
    "zero-width space (U+200B), change their spelling; delete them",
)
_SIGNS_OF_WORDS = (
    _ESCAPES,
    _BOUNDARY_TOKENS,
    _TREES,
    _SUBWORDS,
    _TAGS,
    _UNKNOWN_WORDS,
    _WITHHELD_WORDS,
    _ENCODED_TWICE,
    _REPLACED,
    _DECOMPOSED_LETTERS,
    _HIDDEN_CHARACTERS,
)
_SIGNS_OF_TEXT = (
    _UNTOKENIZED,
    *_SIGNS_OF_WORDS,
    _JSON_LINES,
    _REPRS,
    _FIELDS_OF_OTHERS,
    _SUBTITLE_TIMES,
    _TAGGED_TOKENS,
    _BACKSLASHES,
    _SEQUENCES,
)
# The data of a task are not plain text, and are not tokenized, since their tokens have labels.
SIGNS_OF_DATA = (_UNTOKENIZED_DATA, *_SIGNS_OF_WORDS)
