"""Encodings of text: how they map bytes to characters, and which one a text may have instead."""

from __future__ import annotations

from typing import NamedTuple

from elmo_cli.text.control_characters import BYTE_ORDER_MARK, is_c1


class Hint(NamedTuple):
    """What to do about a line that is refused: `hint` and `parameters` of an `ElmoError`."""

    text: str
    parameters: tuple[str, ...] = ()


_CONVERT = "convert it to UTF-8, or give its encoding, such as "
ENCODING_HINT = Hint(f"{_CONVERT}`encoding='latin-1'` or `encoding='utf-16'`", ("encoding",))
_WINDOWS_HINT = Hint(
    f"{_CONVERT}`encoding='cp1252'` (Windows) or `encoding='utf-16'`", ("encoding",)
)
_UTF_8_HINT = Hint("its bytes are valid UTF-8: `encoding='utf-8'` reads it", ("encoding",))
_MAC_HINT = Hint("in old Mac files it ends lines: `tr '\\r' '\\n' < FILE > NEW_FILE`")
_MARK_HINT = Hint(
    "files were joined within a line: delete it, in UTF-8 with "
    "`sed 's/\\xEF\\xBB\\xBF//g' FILE > NEW_FILE`"
)
_CONVERTED_HINT = Hint(
    "a text from Windows (cp1252) was converted as Latin-1: convert the original again, with "
    "`iconv -f CP1252 -t UTF-8`"
)
_CONTROL_HINT = Hint(
    "delete such characters: `tr -d '\\001-\\010\\016-\\033\\177' < FILE > NEW_FILE`"
)


def extends_ascii(encoding: str) -> bool:
    """Whether ASCII bytes always mean ASCII, so that lines may be split before decoding."""
    ascii_bytes = bytes(range(1, 128))
    if encoding.startswith(("iso2022", "hz")):  # escapes change the meaning of the bytes after them
        return False
    return ascii_bytes.decode(encoding, "replace") == ascii_bytes.decode("ascii")


def is_one_byte(encoding: str) -> bool:
    """Whether each byte is a character, as in Latin-1, and some are not ASCII."""
    has_other_characters = False
    for byte in range(0x80, 0x100):
        pair = bytes([byte, byte]).decode(encoding, "replace")
        if len(pair) != 2:
            return False
        if bytes([byte]).decode(encoding, "replace") != "\ufffd":
            has_other_characters = True
    return has_other_characters


def utf8_characters(content: bytes) -> str:
    """The characters of valid UTF-8 that are not ASCII; "" if it is not valid."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return "".join(character for character in text if character > "\x7f")


def hint_for_bytes(line: bytes, encoding: str) -> Hint:
    """What to do about a line that is not in its encoding."""
    if encoding != "utf-8" and utf8_characters(line):
        return _UTF_8_HINT
    has_windows_byte = any(0x80 <= byte <= 0x9F for byte in line)
    if has_windows_byte and encoding != "cp1252":
        return _WINDOWS_HINT
    return ENCODING_HINT


def hint_for_character(character: str, line: str, encoding: str) -> Hint:
    """What to do about a character that no line may contain."""
    if character == "\r":
        return _MAC_HINT
    if character == BYTE_ORDER_MARK:
        return _MARK_HINT
    if character == "\0":
        return ENCODING_HINT
    if not is_c1(character):
        return _CONTROL_HINT
    if is_one_byte(encoding):
        return hint_for_bytes(line.encode(encoding, "replace"), encoding)
    return _CONVERTED_HINT
