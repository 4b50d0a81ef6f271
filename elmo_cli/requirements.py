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
        ElmoError: the program is not installed, or cannot be imported.
    """
    program = module.partition(".")[0]
    distribution = _DISTRIBUTIONS.get(program, program)
    try:
        with start_up_not_counted():
            return import_module(module)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and _is_part_of(error.name, program)
        if is_missing:
            hint = f"`pip install '.[{extra}]'` in a clone"
            raise ElmoError(f"{distribution} is not installed", hint, where=where) from None
        reason = str(error).strip().partition("\n")[0]
        problem = f"{distribution} is installed, but cannot be imported ({reason})"
        hint = f"`pip install --force-reinstall {distribution}` installs it and what it needs again"
        raise ElmoError(problem, hint, where=where) from error


def _is_part_of(module: str | None, program: str) -> bool:
    return module is not None and module.partition(".")[0] == program
