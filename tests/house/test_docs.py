"""README, docs and the model card: code blocks run and print what they show, and links exist.

A block below `<!-- not run: REASON -->` is not run; its commands, options and make targets must
exist all the same. A block below `<!-- file: NAME … -->` is the content of these files.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from code_blocks import (
    BLOCKS,
    EXAMPLE_OF_THE_HELP,
    PAGES,
    ROOT,
    CodeBlock,
    command_lines,
    output_of_programs,
)
from command_line import made, only_tiny, run_line
from families.checkpoint_files import checkpoint

# What needs another program runs in the tests of `tests/interop`.
REASONS = {"downloads", "installs", "starts Ray", "trains for an hour", "takes minutes"}
REASONS |= {"needs spaCy", "needs pyarrow", "needs NeuroX", "needs Slurm"}
REASONS |= {"is run by tests/examples", "is run by tests/cli", EXAMPLE_OF_THE_HELP}
NO_OUTPUT = "is not what a command prints"  # of text: an entry to copy, a signature, a drawing
LANGUAGES = {"sh", "console", "python", "text", "json", "ini"}
EARLIER_FILES = {
    "flat.hdf5": "embed docs/sample.txt --layout flat",
    "mine.hdf5": "embed mine.txt --tokenize",
    "sample.hdf5": "embed docs/sample.txt",
    "surprisals.tsv": "score keys.txt",
}
WORDS = "The cat sat on the mat .\nI play a play .\nIt slept .\nTurn right at the right time .\n"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MEASURED = re.compile(r"\d+ threads?|in [\d.]+ s( \([\d,]+ tokens/s\))?")
GOLDEN = ROOT / "tests" / "golden"


def blocks(language: str) -> list[CodeBlock]:
    """The blocks in a language that are run."""
    return [block for block in BLOCKS if block.language == language and not block.reason]


def treebank(text: str) -> str:
    """A text in CoNLL-U, with the tags X and Y in turns, and trees that are chains."""
    lines = []
    for sentence in text.splitlines():
        for number, token in enumerate(sentence.split(), 1):
            tag = "XY"[number % 2]
            lines.append(f"{number}\t{token}\t_\t{tag}\t{tag}\t_\t{number - 1}\t_\t_\t_\n")
        lines.append("\n")
    return "".join(lines)


def write_models(folder: Path, tiny: Path) -> None:
    """The models of other programs that the examples name."""
    checkpoint("full", folder / "checkpoint")
    archive = GOLDEN / "allennlp_archive"
    shutil.copy(archive / "model.tar.gz", folder)
    shutil.copy(archive / "options.json", folder / "elmo_options.json")
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(tiny / name, folder)
    shutil.copytree(GOLDEN / "seqvec", folder / "seqvec")
    with zipfile.ZipFile(folder / "142.zip", "w") as zip_file:
        for path in (GOLDEN / "elmoformanylangs" / "cnn-char").iterdir():
            zip_file.write(path, path.name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("corpus.txt", "raw.txt", "one.txt"):
        (folder / name).write_text(WORDS, encoding="utf-8")
    (folder / "corpus.xz").write_bytes(lzma.compress(WORDS.encode()))
    for name in ("train", "dev", "test", "text", "a", "b"):
        (folder / f"{name}.conllu").write_text(treebank(WORDS), encoding="utf-8")
    pairs = []
    for noun in ("cat", "dog", "mouse"):
        pairs.append(
            {"premise": "A cat", "hypothesis": f"A {noun}", "relatedness": len(noun)},
        )
    for block in BLOCKS:
        for name in block.files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(block.code, encoding="utf-8")
    (folder / "glove.6B.50d.txt").write_text("it 0.5 -0.1\ncat 0.1 0.2\n")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nThe\ncat\n")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.md"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    log = folder / "weights" / "elmo-en" / "log.jsonl"
    log.parent.mkdir(parents=True)
    shutil.copy(ROOT / "weights" / "elmo-en" / "log.jsonl", log)
    write_models(folder, tiny)
    (folder / "vectors").mkdir()
    for source, name in (("corpus.txt", "corpus"), ("train.conllu", "train")):
        output = folder / f"{name}.hdf5"
        made("embed", folder / source, "-o", output, "-q", "-m", tiny, "--device", "cpu")
    for name in ("a", "b"):
        shutil.copy(folder / "train.hdf5", folder / "vectors" / f"{name}.hdf5")
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
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(shutil.copytree(files, tmp_path / "scene"))


def run_example(line: str) -> None:
    """Run a line with `elmo`, which replaces its output; a task model is trained for one epoch."""
    output = re.search(r" -o (\S+)", line)
    if output is not None and "elmo inspect" not in line and Path(output[1]).is_file():
        Path(output[1]).unlink()
    if "elmo train " in line and "--epochs" not in line:
        line += " --epochs 1"  # which shows as well as thirty that the line runs
    run_line(line)


def test_every_block_has_a_known_language_and_reason() -> None:
    for block in BLOCKS:
        assert block.language in LANGUAGES, block.name
        reasons = REASONS | {NO_OUTPUT} if block.language == "text" else REASONS
        assert not block.reason or block.reason in reasons, block.name


def test_every_output_is_compared_or_says_why_not() -> None:
    """That of a program which runs elsewhere is compared there."""
    outputs = set(output_of_programs().values())
    for block in BLOCKS:
        if block.language == "text" and block not in outputs:
            assert block.files or block.is_program or block.reason, block.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    targets += re.findall(r' (?:src|srcset|href)="([^"]+)"', text)
    for target in targets:
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
        done = run_line(command_line)
        out = done.out.decode().rstrip("\n")  # a page leaves out the empty line after a sentence
        left = [*out.splitlines(), *done.err.splitlines()]
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


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_programs_print_what_is_shown(
    block: CodeBlock, scene: None, request: pytest.FixtureRequest
) -> None:
    copy_earlier_files(block, request)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})
    output = output_of_programs().get(block)
    if output is not None:
        assert printed.getvalue() == output.code


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.name)
def test_shell_blocks_run(block: CodeBlock, scene: None) -> None:
    for line in command_lines(block.code):
        assert re.search(r"(^|\| )elmo ", line), f"not run: {line}"
        run_example(line)


def test_the_table_of_tasks_runs(scene: None, files: Path) -> None:
    page = ROOT / "docs" / "guides" / "index.md"
    section = page.read_text("utf-8").split("## Common tasks")[1].split("\n```")[0]
    lines = re.findall(r"\| `([^`]*)` ", section)
    assert len(lines) > 8
    for line in lines:
        shutil.copy(files / "corpus.hdf5", "corpus.hdf5")
        run_example(line.replace(r"\|", "|"))


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.name)
def test_json_is_json(block: CodeBlock) -> None:
    json.loads(block.code)
