"""Show files of the repository outside `docs/` as pages of the site, and make links lead there.

The setting `repository_pages` names the file of each page. On GitHub, the page is a link to the
file; on the site, it is the file itself. Links lead from page to page, wherever the file is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def _use_file(app: Any, page_name: str, content: list[str]) -> None:
    """Replace the text of a page by its file, and point its links to pages of the site."""
    files: dict[str, str] = app.config.repository_pages
    pages = {file: f"docs/{page}.md" for page, file in files.items()}
    page = PurePosixPath("docs", f"{page_name}.md")
    source = page
    if page_name in files:
        source = PurePosixPath(files[page_name])
        content[0] = (_ROOT / source).read_text("utf-8")
        # Otherwise Sphinx would not read the page again when the file changes.
        app.env.note_dependency(str(_ROOT / source), docname=page_name)

    def relative_link(link: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / link[1])
        target = pages.get(target, target)
        return f"]({os.path.relpath(target, page.parent)}{link[2] or ''})"

    content[0] = _LINK.sub(relative_link, content[0])


def setup(app: Any) -> dict[str, bool]:
    """Register the setting, and read the files when Sphinx reads their pages."""
    app.add_config_value("repository_pages", {}, "env")
    app.connect("source-read", _use_file)
    return {"parallel_read_safe": True}
