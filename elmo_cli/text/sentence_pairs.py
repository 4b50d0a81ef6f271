"""SentencePair: a good and a bad version of a sentence, read from JSON lines like BLiMP's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elmo_cli.text.input import check_inputs
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.input_signs import TextSample, signs_of_text, warn_of_signs
from elmo_cli.text.jsonl import checked_string, read_members
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.sentence import Sentence, Tokens
from elmo_cli.text.tokenizer import SentenceSplitter, sentence_splitter
from elmo_cli.text.white_space import is_blank, warn_of_hidden_separator

_EXPECTED = (
    'each line is an object with "sentence_good" and "sentence_bad" (strings), optionally also '
    'with "UID" and "linguistics_term"; `jq -c \'.[]\' FILE.json` converts a JSON list to such '
    "lines"
)


@dataclass(frozen=True)
class SentencePair:
    """Two versions of a sentence, one of which is acceptable.

    Attributes:
        good, bad: the sentences of each version; the tokenizer may find more than one.
        uid, term: the paradigm and the phenomenon that the pair tests; "" if they are not stated.
        source, line: the file, and the number of the line in it, from 1.
    """

    good: tuple[Tokens, ...]
    bad: tuple[Tokens, ...]
    uid: str
    term: str
    source: str
    line: int


def read_pairs(
    paths: Sequence[str], settings: InputSettings, report: InputReport
) -> Iterator[SentencePair]:
    """Yield the pairs of files of JSON lines; blank lines are ignored.

    Args:
        settings: strings are split at whitespace, or by the tokenizer.
        report: receives warnings and counts; complete after the last pair.
    Raises:
        UsageError: settings that contradict JSON lines, or no name of a file.
        InputError: a file that can't be read, or a line that is no pair.

    Source: Warstadt et al. 2020 (BLiMP).
    """
    settings = replace(settings, format="jsonl")
    checked_paths = check_inputs(paths, settings)
    return _with_warnings(_read(checked_paths, settings, report), settings, report)


def _read(
    paths: Sequence[str], settings: InputSettings, report: InputReport
) -> Iterator[SentencePair]:
    split = sentence_splitter(settings)
    for path in paths:
        reader = LineReader(path, settings, report)
        for number, line in enumerate(reader.lines(), 1):
            if line is None or is_blank(line):
                continue
            try:
                yield _read_pair(line, number, reader, split)
            except LineError as error:
                reader.reject(number, error.problem, _EXPECTED)


def _read_pair(line: str, number: int, reader: LineReader, split: SentenceSplitter) -> SentencePair:
    """Read the pair on a line; a LineError if there is none."""
    members = read_members(line)
    versions = {}
    for name in ("sentence_good", "sentence_bad"):
        text = checked_string(members.get(name), name)
        if not reader.settings.tokenize and not text.isprintable():
            warn_of_hidden_separator(text, reader.where(number), reader.report)
        sentences = tuple(tuple(sentence.tokens) for sentence in split(text) if sentence.tokens)
        if not sentences:
            raise LineError(f'"{name}" has no tokens')
        versions[name] = sentences
    return SentencePair(
        good=versions["sentence_good"],
        bad=versions["sentence_bad"],
        uid=_optional_string(members, "UID"),
        term=_optional_string(members, "linguistics_term"),
        source=reader.path,
        line=number,
    )


def _optional_string(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    return "" if value is None else checked_string(value, name)


def _with_warnings(
    pairs: Iterator[SentencePair], settings: InputSettings, report: InputReport
) -> Iterator[SentencePair]:
    """Yield the same pairs; report truncated tokens, and signs of raw text in the first ones."""
    max_length = settings.max_characters - 2  # two characters mark the ends of a token
    sample = TextSample()
    for pair in pairs:
        for tokens in (*pair.good, *pair.bad):
            text = " ".join(tokens)
            sentence = Sentence(tokens, key=0, text=text, source=pair.source, line=pair.line)
            report.count_truncated(sentence, max_length)
            if not sample.is_full:
                sample.add(text, tokens, sentence.where)
        yield pair
    warn_of_signs(sample, report, signs_of_text())
