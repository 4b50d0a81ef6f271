"""Control characters and byte order marks, which a line of text may not contain."""

from __future__ import annotations

import re

BYTE_ORDER_MARK = "\ufeff"
NEXT_LINE = "\x85"  # whitespace in Unicode, but another character in encodings of one byte
# The byte order mark and all control characters (category Cc) except tab, line ends and those that
# are whitespace: U+000B, U+000C, U+001C to U+001F and U+0085.
_REFUSED = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff"
_REFUSED_IN_LINE = re.compile(f"[{_REFUSED}\r]")
_REFUSED_IN_LINE_OF_BYTES = re.compile(f"[{_REFUSED}\r{NEXT_LINE}]")
# The same characters in UTF-8: those of one byte, and the others.
_REFUSED_BYTES = bytes([*range(0x09), 0x0D, *range(0x0E, 0x1C), 0x7F])
_REFUSED_SEQUENCES = re.compile(b"\xc2[\x80-\x84\x86-\x9f]|\xef\xbb\xbf")


def is_refused_in_utf8(text: bytes) -> bool:
    """Whether UTF-8 has a character that a line may not contain, without decoding it."""
    if len(text.translate(None, _REFUSED_BYTES)) < len(text):
        return True
    return not text.isascii() and _REFUSED_SEQUENCES.search(text) is not None


def pattern_for_lines(*, is_one_byte: bool) -> re.Pattern[str]:
    """The pattern of a character that a decoded line without its end may not contain.

    Args:
        is_one_byte: whether each byte is a character. U+0085 is refused then: the byte 0x85 of
            Windows-1252 is an ellipsis, and would separate tokens.
    """
    return _REFUSED_IN_LINE_OF_BYTES if is_one_byte else _REFUSED_IN_LINE


def describe(character: str) -> str:
    """A refused character with an article, for messages."""
    if character == "\0":
        return "a NUL"
    if character == "\r":
        return "a carriage return"
    name = "byte order mark" if character == BYTE_ORDER_MARK else "control character"
    return f"a {name} ({code_point(character)})"


def code_point(character: str) -> str:
    """A character as U+00A0."""
    return f"U+{ord(character):04X}"


def is_c1(character: str) -> bool:
    """Whether a control character is one of U+0080 to U+009F, as Latin-1 reads such bytes."""
    return "\x80" <= character <= "\x9f"
