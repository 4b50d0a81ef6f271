"""import_program: an optional program, or an error that names the extra that installs it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from elmo_cli.errors import ElmoError
from elmo_cli.files import StrPath
from elmo_cli.isolate import start_up_not_counted

_DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # names that differ from those of their modules


def import_program(module: str, extra: str, *, where: StrPath = "") -> ModuleType:
    """Import a module of a program that an extra installs.

    Args:
        module: its full name, such as "pyarrow.parquet".
        extra: the extra of the package that installs the program.
        where: what needs the program, for the message.
    Raises:
        ElmoError: the program is not installed.
    """
    try:
        with start_up_not_counted():
            return import_module(module)
    except ModuleNotFoundError as error:
        program = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != program:
            raise  # the program is installed, and lacks something itself
        problem = f"{_DISTRIBUTIONS.get(program, program)} is not installed"
        raise ElmoError(problem, f"`pip install '.[{extra}]'` in a clone", where=where) from None
