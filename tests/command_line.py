"""`elmo` run in this process with streams of its own, as a shell would run it."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

import pytest

from elmo_cli.cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command left.

    Attributes:
        code: its exit code.
        out: what it wrote to standard output.
        err: what it wrote to standard error.
    """

    code: int
    out: bytes
    err: str


def elmo(*words: object, stdin: bytes = b"") -> Done:
    """Run `elmo` with these words; no stream is a terminal."""
    out, err = io.BytesIO(), io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8"))
        patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8", "backslashreplace"))
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(int(str(ended.value.code)), out.getvalue(), err.getvalue().decode("utf-8"))


def made(*words: object, stdin: bytes = b"") -> Done:
    """The same for a command that has to succeed."""
    done = elmo(*words, stdin=stdin)
    assert done.code == 0, done.err
    return done
