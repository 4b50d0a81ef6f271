"""import_program: a program that a bridge needs, or the extra with which it is installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from elmo_cli.errors import UsageError
from elmo_cli.isolate import memory_not_counted


def import_program(module: str, extra: str) -> ModuleType:
    """Import a module of another program.

    Args:
        module: its full name, such as "pyarrow.parquet".
        extra: the extra of the package that installs the program.
    Raises:
        UsageError: the program is not installed.
    """
    try:
        with memory_not_counted():
            return import_module(module)
    except ModuleNotFoundError as error:
        program = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != program:
            raise  # the program is installed, and lacks something itself
        problem = f"{program} is not installed"
        raise UsageError(problem, f"`pip install '.[{extra}]'` in a clone") from error
