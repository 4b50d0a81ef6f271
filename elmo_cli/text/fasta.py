"""FASTA: sequences of proteins; a record is a sentence, and each letter of it is a token."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from elmo_cli.messages import shortened
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.sentence import Sentence

_HEADER = ">"
_COMMENT = ";"
_STOP = "*"
_NO_RESIDUE = re.compile(r"[^A-Za-z*]")
_DIGEST_BYTES = 12  # so that two of a billion ids hardly ever have the same digest
_RAW_HINT = "`fasta_raw=True` keeps every character as a token, as SeqVec does"
_ID_HINT = "`fasta_id` chooses the part of the header that is the id: first, uniprot or header"
_UNIQUE_HINT = f"give each record an id of its own; {_ID_HINT}"


@dataclass
class _Record:
    """A header and the lines of the sequence below it, without their whitespace.

    Attributes:
        line: number of the header line, from 1; without a header, that of the first line of text.
        header: the header line without its `>`; None for text before the first header.
        parts: number and letters of each line of the sequence; of a sequence that is too long, only
            the first lines are kept.
        n_letters: of the whole sequence.
        is_refused: whether a line could not be read, which has been reported.
    """

    line: int
    header: str | None
    parts: list[tuple[int, str]] = field(default_factory=list)
    n_letters: int = 0
    is_refused: bool = False

    def add(self, number: int, letters: str, max_letters: int) -> None:
        """Add a line of the sequence; of one that is too long already, only its length."""
        if self.n_letters <= max_letters:
            self.parts.append((number, letters))
        self.n_letters += len(letters)

    @property
    def text(self) -> str:
        """The letters of the sequence as the file has them."""
        return "".join(letters for _, letters in self.parts)


def read_fasta(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sequences of a FASTA file, each as a document of one sentence.

    The key of the document is the id of the record, the part of its header that the setting
    `fasta_id` chooses. Letters become capitals, and `*` at the end of a sequence is left out; with
    `fasta_raw` every character is kept. The key of a refused record is left out. To find equal ids,
    memory grows by about 130 bytes per record.

    Returns:
        The key after the last record, at the end of the generator.

    Source: Biopython `SeqIO.FastaIO`; `seqvec/seqvec.py` of SeqVec for ids and `fasta_raw`.
    """
    settings = reader.settings
    line_of_id: dict[bytes, int] = {}  # by a digest of the id
    for record in _records(reader):
        if record.is_refused:
            key += 1
            continue
        text = record.text
        try:
            record_id = _id_of(record, settings.fasta_id)
            sequence = _sequence_of(record, text, is_raw=settings.fasta_raw)
            _check_unique(record_id, record.line, line_of_id)
        except LineError as error:
            reader.reject(error.line, error.problem, error.hint, error.parameters)
            key += 1
            continue
        n_left_out = record.n_letters - len(text)  # lines after the first ones, if it is too long
        if reader.admit(len(sequence) + n_left_out, record.line):
            tokens = tuple(sequence)
            reader.report.residues.add(text, sequence, reader.where(record.line))
            yield Sentence(
                tokens=tokens,
                key=key,
                text=" ".join(tokens),
                source=reader.path,
                line=record.line,
                document=record_id,
                starts_document=True,
            )
        key += 1
    return key


def _records(reader: LineReader) -> Iterator[_Record]:
    """Yield the records of a file; memory holds one of them."""
    record: _Record | None = None
    max_letters = reader.settings.max_tokens
    for number, line in enumerate(reader.lines(), 1):
        if line is None:
            # It may have been a header, so that the lines after it belong to another record.
            if record is not None:
                record.is_refused = True
        elif line.startswith(_HEADER):
            if record is not None:
                yield record
            record = _Record(number, line.removeprefix(_HEADER).strip())
        else:
            letters = line if line.isalpha() else "".join(line.split())
            is_comment = record is None and letters.startswith(_COMMENT)
            if not letters or is_comment:
                continue
            if record is None:
                record = _Record(number, header=None)
            record.add(number, letters, max_letters)
    if record is not None:
        yield record


def _id_of(record: _Record, part: str) -> str:
    """The id of a record.

    Args:
        part: of the header, a value of the setting `fasta_id`. For "uniprot" and "header", a `>`
            within the header is removed, as SeqVec does.
    Raises:
        LineError: there is no such part.
    """
    header = record.header
    if header is None:
        problem = f"{shortened(record.text)!r} comes before the first header"
        hint = "a FASTA file begins with a line such as `>P12345 name`, then come its residues"
        raise LineError(problem, hint, line=record.line)
    if part == "first":
        words = header.split(None, 1)
        record_id = words[0] if words else ""
    elif part == "uniprot":
        fields = header.replace(_HEADER, "").split("|")
        if header and len(fields) == 1:
            problem = f"no `|` in the header {shortened(header)!r}, so it has no accession"
            raise LineError(problem, _ID_HINT, line=record.line, parameters=("fasta_id",))
        record_id = fields[1].strip() if len(fields) > 1 else ""
    else:
        record_id = header.replace(_HEADER, "").strip()
    if not record_id:
        problem = "the header contains no id"
        raise LineError(problem, "write an id after `>`, such as `>P12345`", line=record.line)
    return record_id


def _sequence_of(record: _Record, text: str, *, is_raw: bool) -> str:
    """The sequence of a record in capitals.

    Args:
        text: its letters as the file has them.
        is_raw: whether every character is kept.
    Raises:
        LineError: there are no residues, or other characters.
    """
    if not is_raw:
        for number, letters in record.parts:
            if not (letters.isascii() and letters.isalpha()):
                _check_letters(letters, number)
    sequence = text.upper()
    if not is_raw:
        sequence = sequence.rstrip(_STOP)
    if not sequence:
        problem = f"no residues below the header {shortened(record.header or '')!r}"
        raise LineError(problem, "add its sequence, or remove the header", line=record.line)
    return sequence


def _check_letters(letters: str, number: int) -> None:
    """Raise a LineError if a line of a sequence contains a character that is no residue."""
    if letters.startswith(_COMMENT):
        problem = "a comment within a record"
        hint = f"delete it: comments come before the first header; or {_RAW_HINT}"
        raise LineError(problem, hint, line=number, parameters=("fasta_raw",))
    found = _NO_RESIDUE.search(letters)
    if found is None:
        return
    character = found[0]
    if character in "-.":
        problem = f"`{character}` is a gap of an alignment, not a residue"
        hint = f"give sequences without gaps; or {_RAW_HINT}"
    else:
        problem = f"{character!r} is not a residue, which is a letter from A to Z"
        hint = f"delete it; or {_RAW_HINT}"
    raise LineError(problem, hint, line=number, parameters=("fasta_raw",))


def _check_unique(record_id: str, line: int, line_of_id: dict[bytes, int]) -> None:
    """Remember the id of a record; a LineError if an earlier record has it."""
    content = record_id.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
    earlier_line = line_of_id.setdefault(digest, line)
    if earlier_line != line:
        problem = f"the id {shortened(record_id)!r} is also that of line {earlier_line}"
        raise LineError(problem, _UNIQUE_HINT, line=line, parameters=("fasta_id",))
