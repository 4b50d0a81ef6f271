"""warn_caller: a warning of the library, with the line of the code outside it that called it."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def warn_caller(message: str) -> None:
    """Issue a UserWarning with the line of the caller, at any depth of calls in the library."""
    stack_level = 2
    frame = sys._getframe(1)
    # `skip_file_prefixes` of `warnings.warn` requires Python 3.12.
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        stack_level += 1
    warnings.warn(message, UserWarning, stacklevel=stack_level)
