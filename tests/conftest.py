"""What pytest does before, between and after tests; their fixtures are in `shared_fixtures.py`."""

from __future__ import annotations

import gc
import os
import signal

import pytest


def pytest_sessionstart() -> None:
    """Handle Ctrl-C as at a terminal.

    A shell starts `pytest &` and `nohup pytest` with SIGINT ignored, which the commands that tests
    interrupt would inherit: these tests would wait forever.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Import the shared fixtures, and with them torch, where tests run.

    The process that distributes tests to others runs none. No garbage is collected during the
    imports, since nearly everything that is imported stays.
    """
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", default=None):
        gc.disable()
        config.pluginmanager.import_plugin("shared_fixtures")


def pytest_collection_finish() -> None:
    """Exempt what is imported from garbage collection: it stays, and forks share its memory."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Leave the folder of a test that has changed to one, before pytest removes it."""
    os.chdir(item.config.rootpath)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/cli/messages.txt and the list of modules in modules.md again",
    )
