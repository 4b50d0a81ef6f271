"""The examples of `elmo COMMAND --help` run, with files of the names that they have.

The pages of the commands have the same examples. A line that cannot run is in `NOT_RUN`, with the
reason. Training stops after its first steps.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import shutil
from pathlib import Path

import pytest
from code_blocks import BLOCKS, COMMAND_PAGES, CodeBlock, command_lines
from command_line import made, only_tiny, run_line
from families.checkpoint_files import checkpoint
from make_weights import MODELS
from tasks.data_files import COREF_DOCUMENT

EXAMPLES = [block for block in BLOCKS if block.page.parent == COMMAND_PAGES]
EXAMPLES = [block for block in EXAMPLES if block.language == "sh"]
DOWNLOADS = "downloads a model"
NOT_RUN = {
    "elmo embed corpus/*.txt.xz -o shards/ --ray --workers 8 --threads 2": "starts Ray",
    "elmo embed sentences.txt -o out.hdf5 --model original": DOWNLOADS,
    "elmo finetune --domain raw/ --tokenize -m original -o tuned/ --max-seconds 3600": DOWNLOADS,
    "elmo models random --like original -o untrained/": "needs a downloaded model",
    "elmo models pull hf:OWNER/NAME@v1": DOWNLOADS,
    "elmo models pull original": DOWNLOADS,
    "elmo models pull original --overwrite": DOWNLOADS,
    "elmo models pull small": DOWNLOADS,
    "torchrun --nproc-per-node 4 -m elmo_cli pretrain news.txt -o model/ --max-epochs 10": (
        "starts four processes"
    ),
}
SENTENCE = "She sat on the bank and watched the play , like the man I like ."
TEXT = f"{SENTENCE}\nThe children play near the bank of the river .\nIt slept .\n" * 15
SHORT_TEXT = TEXT[: len(TEXT) // 3]
RAW = "She sat on the bank. The play began.\n" * 10
PAIR = {"sentence_good": "The cat sleeps.", "sentence_bad": "The cat sleep.", "UID": "agreement"}
NEW_MODEL = "--options-file options.json --batch-size 2 --bptt 5"


def tag_of(token: re.Match[str]) -> str:
    return "X" if len(token[0]) > 3 else "Y"


def conllu(text: str) -> str:
    """A text in CoNLL-U, with the tags X and Y in turns, and trees that are chains."""
    lines = []
    for sentence in text.splitlines():
        for number, token in enumerate(sentence.split(), 1):
            tag = "XY"[number % 2]
            lemma = token.lower()
            lines.append(f"{number}\t{token}\t{lemma}\t{tag}\t{tag}\t_\t{number - 1}\t_\t_\t_\n")
        lines.append("\n")
    return "".join(lines)


def conll(text: str) -> str:
    """A text in CoNLL, in which words with a capital letter are names."""
    lines = []
    for sentence in text.splitlines():
        for token in sentence.split():
            lines.append(f"{token} {'B-PER' if token[0].isupper() else 'O'}\n")
        lines.append("\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    write_texts(folder)
    write_models(folder)
    with pytest.MonkeyPatch.context() as patch:
        only_tiny(patch, folder / "mine")
        patch.chdir(folder)
        write_results()
    return folder


def write_texts(folder: Path) -> None:
    for name in ("corpus", "news", "dev", "sentences", "new", "1810"):
        (folder / f"{name}.txt").write_text(TEXT)
    for name in ("train", "dev", "test", "a", "b", "1960"):
        (folder / f"{name}.conllu").write_text(conllu(SHORT_TEXT))
    for name in ("train", "dev", "test"):
        (folder / f"{name}.conll").write_text(conll(TEXT[:500]))
    for name in ("a", "b"):
        (folder / f"{name}.tags").write_text(re.sub(r"\S+", tag_of, SHORT_TEXT))
    for name in ("raw", "corpus"):
        (folder / name).mkdir()
        (folder / name / "one.txt.xz").write_bytes(lzma.compress(RAW.encode()))
    (folder / "data").mkdir()
    different = [f"Line {number} is {SENTENCE}\n" for number in range(80)]
    (folder / "data" / "one.txt").write_text("".join(different))
    (folder / "heldout.txt").write_text("It slept .\n" * 600)
    (folder / "raw.txt").write_text(RAW)
    (folder / "raw.txt.xz").write_bytes(lzma.compress(RAW.encode()))
    (folder / "new.txt.xz").write_bytes(lzma.compress(RAW.encode()))
    (folder / "tokens.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    (folder / "corpus.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "coref.jsonlines").write_text(json.dumps(COREF_DOCUMENT) + "\n")
    (folder / "proteins.fasta").write_text(">P1 first\nMKTAYIAK\n>P2\nGAVLI\n")
    (folder / "pairs.jsonl").write_text(f"{json.dumps(PAIR)}\n" * 3)
    (folder / "glove.6B.50d.txt").write_text("the 0.5 -0.1\nbank 0.1 0.2\n")
    for name in ("targets", "lemmas"):
        (folder / f"{name}.txt").write_text("bank\nplay\n")


def write_models(folder: Path) -> None:
    """A small biLM with a softmax under the names of all models, and a checkpoint."""
    (folder / "options.json").write_text(json.dumps(MODELS["tiny"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made("pretrain", "news.txt", "-o", "mine/", "-q", "--max-steps", 1, *NEW_MODEL.split())
        shutil.copy(folder / "mine" / "weights.hdf5", "weights.hdf5")
        for name in ("small", "large"):
            shutil.copytree("mine", name)
        for name in ("finetuned", "tuned", "model"):
            shutil.copytree("mine", name)
    checkpoint("full", folder / "checkpoint")


def write_results() -> None:
    """Write what earlier commands have made, in the working folder."""
    for kind, output in (("conllu", "vectors"), ("conll", "vectors-of-conll")):
        files = [f"{name}.{kind}" for name in ("train", "dev", "test")]
        made("embed", *files, "-o", f"{output}/", "-q")
    for copy in ("a", "b", "train", "dev", "trained", "untrained"):
        shutil.copy("vectors/train.hdf5", f"{copy}.hdf5")
    made("embed", "corpus.txt", "-o", "corpus.hdf5", "-q")
    shutil.copy("corpus.hdf5", "queries.hdf5")
    words = "train ner --train train.conll --dev dev.conll --epochs 1 -q"
    made(*words.split(), "-o", "ner/")
    shutil.copytree("ner", "srl")
    for name in ("c1.npz", "c2.npz"):
        made("usages", "1810.txt", "--words", "targets.txt", "-o", name, "-q")
    results = {
        "geometry": "geometry corpus.hdf5 --json",
        "probe": "probe --train a.hdf5 a.conllu --test b.hdf5 b.conllu --label-column upos --json",
    }
    for name, line in results.items():
        Path(f"{name}.json").write_bytes(made(*line.split()).out)
    line = "probe --structural distance --train a.hdf5 a.conllu --test b.hdf5 b.conllu"
    made(*line.split(), "--trees", "trees.jsonl", "-q")


def prepare(block: CodeBlock) -> None:
    """Give the files that differ from block to block the names that the block uses."""
    if "ner/" in block.code:
        shutil.rmtree("vectors")
        shutil.copytree("vectors-of-conll", "vectors")
    for command in ("geometry", "probe"):
        if f"elmo plot {command} " in block.code:
            for name in ("trained", "untrained"):
                shutil.copy(f"{command}.json", f"{name}.json")


def remove_output(line: str) -> None:
    """Remove the output of an earlier line, unless this one continues it."""
    if "--resume" in line:
        return
    for name in re.findall(r" (?:-o|--trees) (\S+)", line):
        path = Path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            path.with_suffix(".tsv").unlink(missing_ok=True)  # of `elmo usages`


def with_few_steps(line: str) -> str:
    """A line that trains for a few steps of a small model."""
    if re.search(r"elmo (finetune|pretrain) ", line):
        n_steps = 2 if "--resume" in line else 1
        line += f" --max-steps {n_steps}"
    if "elmo pretrain " in line and "--resume" not in line and "--recipe" not in line:
        line += f" {NEW_MODEL}"
    if "elmo train " in line:
        line += " --epochs 1"
    return line


def marks_of(block: CodeBlock) -> list[pytest.MarkDecorator]:
    """Parquet needs pyarrow, which `make test` does not install."""
    return [pytest.mark.interop] if ".parquet" in block.code else []


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=block.name, marks=marks_of(block)) for block in EXAMPLES]
)
def test_examples_of_the_help_run(
    block: CodeBlock, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = shutil.copytree(folder, tmp_path / "scene")
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    only_tiny(monkeypatch, scene / "mine")
    monkeypatch.chdir(scene)
    prepare(block)
    for line in command_lines(block.code):
        if line not in NOT_RUN:
            remove_output(line)
            run_line(with_few_steps(line))


def test_nearly_all_examples_run() -> None:
    """The list of those that do not run has no other lines."""
    lines = {line for block in EXAMPLES for line in command_lines(block.code)}
    assert set(NOT_RUN) < lines
    assert len(NOT_RUN) < len(lines) / 10
