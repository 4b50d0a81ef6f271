"""README, docs and the model card: code blocks run and print what they show, and links exist.

A block below `<!-- not run: REASON -->` is not run; its commands, options and make targets must
exist all the same. A block below `<!-- file: NAME … -->` is the content of these files.
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import lzma
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import commands, elmo, made, only_tiny

from elmo_cli.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "elmo_cli" / "store" / "SCHEMA.md",
    ROOT / "weights" / "elmo-en" / "README.md",
]
REASONS = {"downloads", "installs", "starts Ray", "trains for an hour", "takes minutes"}
BLOCK = re.compile(r"(?:<!-- not run: ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.S | re.M)
FILE = re.compile(r"<!-- file: ([^\n]*) -->\n```text\n(.*?)^```$", re.S | re.M)
LANGUAGES = {"sh", "console", "python", "text", "json"}
WORDS = "The cat sat on the mat .\nI play a play .\nIt slept .\n"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(r"\d+ threads?|in [\d.]+ s \([\d,]+ tokens/s\)")


@dataclass(frozen=True)
class CodeBlock:
    """A code block of a page; `reason` says why it is not run, "" if it is."""

    page: Path
    reason: str
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.code[:40]!r}"


def code_blocks() -> list[CodeBlock]:
    return [
        CodeBlock(page, *found)
        for page in PAGES
        for found in BLOCK.findall(page.read_text("utf-8"))
    ]


BLOCKS = code_blocks()


def blocks(language: str, *, run: bool = True) -> list[CodeBlock]:
    return [one for one in BLOCKS if one.language == language and not (run and one.reason)]


def command_lines(code: str) -> list[str]:
    """The lines of a shell block without comments and continuations."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


def inline_commands(page: Path) -> list[str]:
    found = re.findall(r"`((?:[^`\n]*\| )?elmo [a-z]+ [^`\n]*)`", page.read_text("utf-8"))
    return [line.replace(r"\|", "|") for line in found]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("corpus.txt", "raw.txt", "one.txt"):
        (folder / name).write_text(WORDS, encoding="utf-8")
    (folder / "corpus.xz").write_bytes(lzma.compress(WORDS.encode()))
    trees = "".join(
        "".join(
            f"{i}\t{token}\t_\t{'XY'[i % 2]}\t_\t_\t0\t_\t_\t_\n"
            for i, token in enumerate(line.split(), 1)
        )
        + "\n"
        for line in WORDS.splitlines()
    )
    for name in ("train", "dev", "test"):
        (folder / f"{name}.conllu").write_text(trees, encoding="utf-8")
    pairs = [
        {"premise": "A cat", "hypothesis": f"A {w}", "relatedness": len(w)}
        for w in ("cat", "dog", "mouse")
    ]
    for page in PAGES:
        for names, content in FILE.findall(page.read_text("utf-8")):
            for name in names.split():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(content, encoding="utf-8")
    (folder / "glove.6B.50d.txt").write_text("it 0.5 -0.1\ncat 0.1 0.2\n")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.md"))
    for source, name in (("corpus.txt", "corpus"), ("train.conllu", "train")):
        output = folder / f"{name}.hdf5"
        made("embed", folder / source, "-o", output, "-q", "-m", tiny, "--device", "cpu")
    return folder


@pytest.fixture
def scene(files: Path, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of these files as the working folder, and a small model as the default."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(shutil.copytree(files, tmp_path / "scene"))


def run_line(line: str) -> None:
    """Run one line with `elmo`, which may follow a pipe and replaces its output."""
    *before, last = line.split(" | ")
    stdin = b""
    if before:
        stdin = subprocess.run(" | ".join(before), shell=True, capture_output=True).stdout
    words = [name for word in shlex.split(last)[1:] for name in (glob.glob(word) or [word])]
    if "-o" in words[:-1] and words[0] != "inspect":
        output = Path(words[words.index("-o") + 1])
        if output.is_file():
            output.unlink()
    done = elmo(*words, stdin=stdin)
    assert done.code == 0, (line, done.err)


def test_every_block_has_a_known_language_and_reason() -> None:
    for block in BLOCKS:
        assert block.language in LANGUAGES, block.name
        assert not block.reason or block.reason in REASONS, block.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.M)
            slugs = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]
            assert anchor in slugs, target


def test_the_readme_is_short() -> None:
    text = PAGES[0].read_text("utf-8")
    assert len(text.splitlines()) <= 300
    assert len(text.split()) <= 1500


def test_commands_and_options_exist() -> None:
    """Of all shell blocks and of all commands within the text."""
    lines = [line for block in blocks("sh", run=False) for line in command_lines(block.code)]
    lines += [line for page in PAGES for line in inline_commands(page)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    n_commands, every = 0, commands()
    for line in lines:
        assert not line.startswith("make ") or line.split()[1] in targets, line
        if not (found := re.search(r"(?:^|[|] |-m )elmo(?:_cli)? (\w+)(.*)", line)):
            continue
        name, words = found[1], found[2].split()
        assert name in {*COMMANDS, "help"}, line
        command = every.get((name, words[0] if words else ""), every.get((name,)))
        options = {one for part in command.params for one in part.opts} if command else set()
        used = {word for word in words if re.match("--?[a-z]", word)}
        assert used <= options | {"--help", "-h", "--debug"}, line
        n_commands += 1
    assert n_commands > 40


def alike(shown: str, printed: str) -> bool:
    """Whether two lines have the same words and, to rounding, the same numbers."""
    shown, printed = MEASURED.sub("…", shown), MEASURED.sub("…", printed)
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(abs(float(a.replace(",", "")) - float(b.replace(",", ""))) < 0.006 for a, b in pairs)


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.name)
def test_commands_print_what_is_shown(
    block: CodeBlock, scene: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bundled model; rates, times and the layout of tables may differ."""
    monkeypatch.delenv("ELMO_MODEL")
    for part in re.split(r"^\$ ", block.code, flags=re.M)[1:]:
        command, *shown = part.splitlines()
        (line,) = command_lines(command)
        words = shlex.split(line)[1:]
        done = made(*words)
        printed = [*done.out.decode().splitlines(), *done.err.splitlines()]
        left = [one for one in printed if one and one != "loading"]
        for one in filter(None, shown):
            match = next((other for other in left if alike(one, other)), None)
            assert match is not None, (one, left)
            left.remove(match)
        assert not left


def python_blocks() -> list[tuple[CodeBlock, str]]:
    """Python blocks, each with the output that the next block shows."""
    following = [*BLOCKS[1:], CodeBlock(ROOT, "", "", "")]
    return [
        (one, after.code if after.language == "text" and after.page == one.page else "")
        for one, after in zip(BLOCKS, following, strict=True)
        if one.language == "python" and not one.reason
    ]


@pytest.mark.parametrize(
    ("block", "shown"), [pytest.param(*one, id=one[0].name) for one in python_blocks()]
)
def test_programs_print_what_is_shown(block: CodeBlock, shown: str, scene: None) -> None:
    if "sample.hdf5" in block.code:
        made("embed", "docs/sample.txt", "-o", "sample.hdf5", "-q", "-m", "elmo-en")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})
    if shown:
        assert printed.getvalue() == shown


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.name)
def test_shell_blocks_run(block: CodeBlock, scene: None) -> None:
    for line in command_lines(block.code):
        assert re.search(r"(^|\| )elmo ", line), f"not run: {line}"
        run_line(line)


def test_the_table_of_tasks_runs(scene: None, files: Path) -> None:
    section = PAGES[0].read_text("utf-8").split("## Common tasks")[1].split("\n## ")[0]
    lines = re.findall(r"\| `([^`]*)` ", section)
    assert len(lines) > 8
    for line in lines:
        shutil.copy(files / "corpus.hdf5", "corpus.hdf5")
        run_line(line.replace(r"\|", "|"))


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.name)
def test_json_is_json(block: CodeBlock) -> None:
    json.loads(block.code)
