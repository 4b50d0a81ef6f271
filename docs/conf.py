"""Sphinx: `make docs` builds `docs/` into `build/site`, which opens from the disk."""

import os
import sys
from pathlib import Path

from elmo_cli import __version__

_EXTENSIONS = Path(__file__).parent / "_ext"
sys.path.insert(0, str(_EXTENSIONS))

project = author = copyright = "elmo"
release = __version__
exclude_patterns = ["_ext"]
extensions = [
    "myst_nb",  # Markdown and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",  # docstrings with Args, Returns, Raises
    "sphinx_copybutton",
    "docstring_examples",
    "mathml",
    "repository_pages",
]

default_role = "code"  # docstrings have `names` in single backticks
smartquotes = False  # otherwise `--layers` in prose becomes –layers
myst_enable_extensions = ["alert", "deflist", "dollarmath"]
myst_heading_anchors = 3  # [text](page.md#heading), as on GitHub
html_math_renderer = "mathml"

nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
os.environ["JUPYTER_PATH"] = str(_EXTENSIONS)  # its kernel does not warn about ports

autodoc_member_order = "bysource"
autodoc_mock_imports = ["spacy", "thinc"]
autodoc_typehints = "description"
toc_object_entries = False  # a page lists its headings, not every name

html_theme = "furo"
html_title = f"elmo {release}"
html_static_path = ["_ext/site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False  # the search finds all names
html_show_sourcelink = False
html_show_search_summary = False  # it fetches pages, which a browser refuses from the disk
html_search_scorer = str(_EXTENSIONS / "scorer.js")

copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# Pages whose text is another file of the repository; on GitHub, they link to it.
repository_pages = {
    "changelog": "CHANGELOG.md",
    "contributing/contributing": "CONTRIBUTING.md",
    "contributing/report-a-vulnerability": "SECURITY.md",
    "contributing/speed-notes": "benchmarks/speed/NOTES.md",
    "tutorials/examples": "examples/README.md",
    "reference/attribution": "weights/elmo-en/ATTRIBUTION.md",
    "reference/file-format": "elmo_cli/store/SCHEMA.md",
    "reference/model-history": "weights/elmo-en/HISTORY.md",
    "reference/model-card": "weights/elmo-en/README.md",
}
