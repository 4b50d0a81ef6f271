"""Write the pages of the commands, `docs/reference/commands/NAME.md`, from their help.

    python docs/_ext/command_pages.py            # write the pages
    python docs/_ext/command_pages.py --check    # name the pages that differ from the help

Needs only what `elmo --help` needs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import click

from elmo_cli.cli.command_groups import COMMAND_GROUPS, COMMAND_NAMES
from elmo_cli.cli.main import cli

_FOLDER = Path(__file__).resolve().parents[1] / "reference" / "commands"
_TOKEN = re.compile(
    r"`?docs/(?P<page>[\w/-]+\.md)`?"
    r"|(?P<code>`[^`]+`)"
    r"|(?<![\w-])(?P<name>--?[a-z][a-z-]*|\$[A-Z_]+)"
    r"|(?P<markup>[*<$])"
)


class _MarkdownFormatter(click.HelpFormatter):
    """Collects the help of a command as Markdown.

    Args:
        level: of the heading of the command; the headings of its options are one level lower.
    """

    def __init__(self, level: int) -> None:
        super().__init__(width=1000)  # no sentence is cut
        self._level = level
        self._lines: list[str] = []

    def getvalue(self) -> str:
        return "\n".join(self._lines)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        heading = f"{'#' * self._level} {prog}"
        self._lines += [heading, "", "```text", f"{prog} {args}", "```", ""]

    def write_text(self, text: str) -> None:
        for paragraph in re.split(r"\n\s*\n", text):
            self._lines += [*_paragraph(paragraph), ""]

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        for term, description in rows:
            self._lines.append(f"- `{term}`: {_prose(description)}")
        self._lines.append("")

    def write_paragraph(self) -> None:
        """Write nothing: each method ends with a blank line."""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self._lines += [f"{'#' * (self._level + 1)} {name}", ""]
        yield


def _paragraph(text: str) -> list[str]:
    """The lines of a paragraph of help; examples become a block of shell commands."""
    if text.startswith("\b\nExamples:\n"):
        commands = dedent(text.removeprefix("\b\nExamples:\n"))
        return ["```sh", *commands.splitlines(), "```"]
    words = " ".join(text.split())
    if words.startswith("Example: "):
        return ["```sh", words.removeprefix("Example: "), "```"]
    return [_prose(words)]


def _prose(text: str) -> str:
    """Markdown of a sentence: options and variables as code, pages as links, no other markup."""
    return _TOKEN.sub(_marked, " ".join(text.split()))


def _marked(token: re.Match[str]) -> str:
    if token["page"]:
        return f"[docs/{token['page']}](../../{token['page']})"
    if token["name"]:
        return f"`{token['name']}`"
    if token["markup"]:
        return f"\\{token['markup']}"
    return token["code"]


def _command_text(command: click.Command, context: click.Context, level: int = 1) -> str:
    """The help of a command and of its own commands."""
    formatter = _MarkdownFormatter(level)
    command.format_help(context, formatter)
    texts = [formatter.getvalue()]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            inner_context = click.Context(inner, info_name=name, parent=context)
            texts.append(_command_text(inner, inner_context, level + 1))
    return "\n".join(texts)


def _index() -> str:
    lines = ["# Commands", ""]
    for group in COMMAND_GROUPS:
        lines += [f"## {group.heading}", "", "| command | what it does | reads | writes |"]
        lines.append("|---|---|---|---|")
        for name, summary in group.commands.items():
            link = f"[{name}]({name}.md)"
            lines.append(f"| {link} | {summary.sentence} | {summary.reads} | {summary.writes} |")
        lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *COMMAND_NAMES, "```"]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    texts = {"index.md": _index()}
    context = click.Context(cli, info_name="elmo", **cli.context_settings)
    for name in COMMAND_NAMES:
        command = cli.get_command(context, name)
        assert command is not None
        command_context = click.Context(command, info_name=name, parent=context)
        texts[f"{name}.md"] = _command_text(command, command_context)
    return {name: text.rstrip() + "\n" for name, text in texts.items()}


def differing_pages(folder: Path) -> list[Path]:
    """Return the pages of a folder that differ from the help, are missing, or have no command."""
    texts = pages()
    differing = [path for path in folder.glob("*.md") if path.name not in texts]
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            differing.append(path)
    return sorted(differing)


def write_pages(folder: Path) -> None:
    """Write the pages that differ from the help; remove those without a command."""
    texts = pages()
    for path in differing_pages(folder):
        if path.name in texts:
            path.write_text(texts[path.name], "utf-8")
        else:
            path.unlink()


def main(arguments: Iterable[str]) -> int:
    """Write or check the pages; return the exit code."""
    if "--check" not in arguments:
        write_pages(_FOLDER)
        return 0
    differing = differing_pages(_FOLDER)
    for path in differing:
        page = path.relative_to(_FOLDER.parents[2])
        print(f"error: {page} differs from `elmo {path.stem} --help`", file=sys.stderr)
    if differing:
        print("hint: run `python docs/_ext/command_pages.py`", file=sys.stderr)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
