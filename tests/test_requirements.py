"""import_program: what is installed is imported, what is not names its extra."""

from __future__ import annotations

import pytest

from elmo_cli.errors import ElmoError
from elmo_cli.requirements import import_program


def test_an_installed_program_is_imported():
    assert import_program("json.decoder", "parquet").JSONDecoder is not None


@pytest.mark.parametrize("module", ["nosuchprogram", "nosuchprogram.table"])
def test_a_missing_program_names_its_extra(module):
    with pytest.raises(ElmoError, match="nosuchprogram is not installed") as raised:
        import_program(module, "parquet")
    assert raised.value.hint == "`pip install '.[parquet]'` in a clone"
    assert raised.value.exit_code == 1


def test_a_program_that_lacks_a_module_itself_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "incompleteprogram.py").write_text("import nosuchlibrary\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    message = r"incompleteprogram is installed, but cannot be imported \(.*'nosuchlibrary'\)"
    with pytest.raises(ElmoError, match=message) as raised:
        import_program("incompleteprogram", "parquet")
    assert "`pip install --force-reinstall incompleteprogram`" in raised.value.hint
