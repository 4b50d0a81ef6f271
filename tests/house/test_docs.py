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
from families.checkpoint_files import checkpoint

from elmo_cli.cli.command_groups import COMMAND_NAMES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "elmo_cli" / "store" / "SCHEMA.md",
    ROOT / "examples" / "README.md",
    ROOT / "weights" / "elmo-en" / "README.md",
    ROOT / "weights" / "elmo-en" / "HISTORY.md",
]
# What needs another program runs in the tests of `tests/interop`.
REASONS = {"downloads", "installs", "starts Ray", "trains for an hour", "takes minutes"}
REASONS |= {"needs spaCy", "needs pyarrow", "is run by tests/examples"}
# The pages that `docs/_ext/command_pages.py` writes have the examples of the help.
COMMAND_PAGES = ROOT / "docs" / "reference" / "commands"
REASONS |= {"is an example of the help"}
BLOCK = re.compile(r"(?:<!-- not run: ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.S | re.M)
FILE = re.compile(r"<!-- file: ([^\n]*) -->\n```text\n(.*?)^```$", re.S | re.M)
LANGUAGES = {"sh", "console", "python", "text", "json", "ini"}
EARLIER_FILES = {
    "flat.hdf5": "embed docs/sample.txt --layout flat",
    "mine.hdf5": "embed mine.txt --tokenize",
    "sample.hdf5": "embed docs/sample.txt",
    "surprisals.tsv": "score keys.txt",
}
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
    blocks = []
    for page in PAGES:
        for reason, language, code in BLOCK.findall(page.read_text("utf-8")):
            if page.parent == COMMAND_PAGES:
                reason = "is an example of the help"
            if not language.startswith("{"):  # a directive of the site
                blocks.append(CodeBlock(page=page, reason=reason, language=language, code=code))
    return blocks


BLOCKS = code_blocks()


def blocks(language: str) -> list[CodeBlock]:
    """The blocks in a language that are run."""
    return [block for block in BLOCKS if block.language == language and not block.reason]


def command_lines(code: str) -> list[str]:
    """The lines of a shell block without comments and continuations."""
    lines = []
    for line in code.replace("\\\n", " ").splitlines():
        command = re.sub(r"(^|\s)#.*", "", line).strip()
        if command:
            lines.append(command)
    return lines


def inline_commands(page: Path) -> list[str]:
    """The commands within the text of a page."""
    quoted = re.findall(r"`((?:[^`\n]*\| )?elmo [a-z]+ [^`\n]*)`", page.read_text("utf-8"))
    return [line.replace(r"\|", "|") for line in quoted]


def treebank(text: str) -> str:
    """A text in CoNLL-U, with the tags X and Y in turns."""
    lines = []
    for sentence in text.splitlines():
        for number, token in enumerate(sentence.split(), 1):
            tag = "XY"[number % 2]
            lines.append(f"{number}\t{token}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n")
        lines.append("\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("corpus.txt", "raw.txt", "one.txt"):
        (folder / name).write_text(WORDS, encoding="utf-8")
    (folder / "corpus.xz").write_bytes(lzma.compress(WORDS.encode()))
    for name in ("train", "dev", "test"):
        (folder / f"{name}.conllu").write_text(treebank(WORDS), encoding="utf-8")
    pairs = []
    for noun in ("cat", "dog", "mouse"):
        pairs.append(
            {"premise": "A cat", "hypothesis": f"A {noun}", "relatedness": len(noun)},
        )
    for page in PAGES:
        for names, content in FILE.findall(page.read_text("utf-8")):
            for name in names.split():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(content, encoding="utf-8")
    (folder / "glove.6B.50d.txt").write_text("it 0.5 -0.1\ncat 0.1 0.2\n")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.md"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    checkpoint("full", folder / "checkpoint")
    for source, name in (("corpus.txt", "corpus"), ("train.conllu", "train")):
        output = folder / f"{name}.hdf5"
        made("embed", folder / source, "-o", output, "-q", "-m", tiny, "--device", "cpu")
    return folder


@pytest.fixture(scope="module")
def earlier_files(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that earlier blocks of pages write, with the bundled model."""
    folder = tmp_path_factory.mktemp("earlier")
    with contextlib.chdir(files):
        for name, command in EARLIER_FILES.items():
            made(*command.split(), "-o", folder / name, "-q", "-m", "elmo-en")
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
    words = []
    for word in shlex.split(last)[1:]:
        words += glob.glob(word) or [word]
    if "-o" in words[:-1] and words[0] != "inspect":
        output = Path(words[words.index("-o") + 1])
        if output.is_file():
            output.unlink()
    if words[0] == "train" and "--epochs" not in words:
        words += ["--epochs", "1"]  # which shows as well as thirty that the line runs
    done = elmo(*words, stdin=stdin)
    assert done.code == 0, (line, done.err)


def test_every_block_has_a_known_language_and_reason() -> None:
    for block in BLOCKS:
        assert block.language in LANGUAGES, block.name
        assert not block.reason or block.reason in REASONS, block.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.M)
            slugs = []
            for heading in headings:
                words = re.sub(r"[^\w\- ]", "", heading.lower())
                slugs.append(words.replace(" ", "-"))
            assert anchor in slugs, target


def test_the_readme_is_short() -> None:
    text = PAGES[0].read_text("utf-8")
    assert len(text.splitlines()) <= 300
    assert len(text.split()) <= 1500


def test_commands_and_options_exist() -> None:
    """Of all shell blocks and of all commands within the text."""
    lines = []
    for block in BLOCKS:
        if block.language == "sh":
            lines += command_lines(block.code)
    for page in PAGES:
        lines += inline_commands(page)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    n_commands = 0
    for line in lines:
        if line.startswith("make "):
            assert line.split()[1] in targets, line
        call = re.search(r"(?:^|[|] |-m )elmo(?:_cli)? (\w+)(.*)", line)
        if call is not None:
            check_call(line, name=call[1], words=call[2].split())
            n_commands += 1
    assert n_commands > 40


def check_call(line: str, name: str, words: list[str]) -> None:
    """Check that a line calls a command with options that it has."""
    assert name in {*COMMAND_NAMES, "help"}, line
    every = commands()
    command = every.get((name,))
    if words and (name, words[0]) in every:
        command = every[name, words[0]]
    options = {"--help", "-h", "--debug"}
    if command is not None:
        for parameter in command.params:
            options |= set(parameter.opts)
    used = {word for word in words if re.match("--?[a-z]", word)}
    assert used <= options, line


def alike(shown: str, printed: str) -> bool:
    """Whether two lines have the same words and, to rounding, the same numbers."""
    shown = MEASURED.sub("…", shown)
    printed = MEASURED.sub("…", printed)
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split():
        return False
    for shown_number, number in zip(numbers_of(shown), numbers_of(printed), strict=True):
        if abs(shown_number - number) >= 0.006:
            return False
    return True


def numbers_of(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(line)]


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.name)
def test_commands_print_what_is_shown(
    block: CodeBlock,
    scene: None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """With the bundled model; rates, times and the layout of tables may differ."""
    monkeypatch.delenv("ELMO_MODEL")
    copy_earlier_files(block, request)
    for part in re.split(r"^\$ ", block.code, flags=re.M)[1:]:
        command, *shown = part.splitlines()
        (command_line,) = command_lines(command)
        done = made(*shlex.split(command_line)[1:])
        left = [*done.out.decode().splitlines(), *done.err.splitlines()]
        for shown_line in shown:
            matching = [line for line in left if alike(shown_line, line)]
            assert matching, (shown_line, left)
            left.remove(matching[0])
        assert not left


def copy_earlier_files(block: CodeBlock, request: pytest.FixtureRequest) -> None:
    """Copy the files that an earlier block of the page writes and this one reads."""
    for name in EARLIER_FILES:
        if name in block.code and f"-o {name}" not in block.code:
            shutil.copy(request.getfixturevalue("earlier_files") / name, name)


def python_blocks() -> list[tuple[CodeBlock, str]]:
    """Python blocks, each with the output that the next block shows."""
    programs = []
    for number, block in enumerate(BLOCKS):
        if block.language != "python" or block.reason:
            continue
        shown = ""
        if number + 1 < len(BLOCKS):
            following = BLOCKS[number + 1]
            if following.language == "text" and following.page == block.page:
                shown = following.code
        programs.append((block, shown))
    return programs


@pytest.mark.parametrize(
    ("block", "shown"),
    [pytest.param(block, shown, id=block.name) for block, shown in python_blocks()],
)
def test_programs_print_what_is_shown(
    block: CodeBlock, shown: str, scene: None, request: pytest.FixtureRequest
) -> None:
    copy_earlier_files(block, request)
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
    page = ROOT / "docs" / "guides" / "index.md"
    section = page.read_text("utf-8").split("## Common tasks")[1].split("\n```")[0]
    lines = re.findall(r"\| `([^`]*)` ", section)
    assert len(lines) > 8
    for line in lines:
        shutil.copy(files / "corpus.hdf5", "corpus.hdf5")
        run_line(line.replace(r"\|", "|"))


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.name)
def test_json_is_json(block: CodeBlock) -> None:
    json.loads(block.code)
