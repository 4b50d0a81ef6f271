"""Whitespace: what makes a line blank, and what separates tokens that spaces and tabs do not."""

from __future__ import annotations

import re

from elmo_cli.text.control_characters import code_point
from elmo_cli.text.input_report import InputReport

# ASCII whitespace, of which a blank line consists; U+00A0 may be a token.
BLANK = " \t\x0b\x0c\x1c\x1d\x1e\x1f"
# All that `str.split` splits at except space, tab and line ends, as ranges of a regular expression.
OTHER_SPACES = "\x0b\x0c\x1c-\x1f\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Such whitespace within a token of `split(" ")`, or as a whole token of it.
_SEPARATES = re.compile(rf"(?<=\S)[{OTHER_SPACES}]+(?=\S)|(?<![^ \t])[{OTHER_SPACES}]+(?![^ \t])")


def is_blank(line: str) -> bool:
    """Whether a line holds nothing but ASCII whitespace."""
    return not line.strip(BLANK)


def warn_of_hidden_separator(text: str, where: str, report: InputReport) -> None:
    """Warn if a text has another number of tokens when it is split only at spaces and tabs."""
    found = _SEPARATES.search(text)
    if found is not None and not text.isspace():
        problem = (
            f"{code_point(found[0][0])} at character {found.start() + 1} separates tokens; "
            "splitting at spaces gives another number of them"
        )
        hint = "`tokens` of JSON lines and CoNLL-U keep it within a token"
        report.warn("separator", f"{where}: {problem}; {hint}")
