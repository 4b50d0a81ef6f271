"""`elmo pretrain` and `finetune`, killed before any call that changes a file, then repeated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from finetune_command import command as finetune_command
from killed_commands import KilledCommand
from make_weights import MODELS
from tiny_run import write_texts

MODEL = ("options.json", "vocab.txt", "weights.hdf5", "softmax.hdf5", "state.hdf5", "parts.json")
SIZES = ("--options-file", "sizes.json", "--batch-size", 2, "--bptt", 5)
EVALUATIONS = ("--eval-steps", 2, "--keep-best", "--log-steps", 1)
MACHINE = ("--threads", 1, "-q")


def trained(folder: Path) -> dict[str, Any]:
    """The files of the model, and the log without times."""
    content: dict[str, Any] = {name: (folder / "out" / name).read_bytes() for name in MODEL}
    lines = (folder / "out" / "log.jsonl").read_text().splitlines()
    content["log"] = [{**json.loads(line), "seconds": 0} for line in lines]
    return content


def only_inputs(folder: Path) -> None:
    write_texts(folder, 12)
    (folder / "sizes.json").write_text(json.dumps(MODELS["tiny"]))


@pytest.mark.parametrize(
    ("option", "is_exhaustive"),
    [
        ("", False),
        ("--resume", False),
        pytest.param("", True, marks=pytest.mark.slow),
        pytest.param("--resume", True, marks=pytest.mark.slow),
        pytest.param("--overwrite", True, marks=pytest.mark.slow),
    ],
)
def test_killed_pretraining_ends_as_if_undisturbed(
    option: str, is_exhaustive: bool, tmp_path: Path
) -> None:
    """A run that is replaced has another seed; a run that is resumed has no checkpoint yet.

    Once its recipe is written, a resumed run has the files of a new run, which is then repeated
    with `--resume` too. Therefore the quick test does not kill it later. The slow test
    continues after the second evaluation, to an end between two evaluations.
    """
    texts = ("text.txt", "--heldout", "dev.txt")
    words = ("pretrain", *texts, "-o", "out", *SIZES, *EVALUATIONS, *MACHINE)
    words = (*words, "--max-steps", 3 if is_exhaustive else 2)
    earlier = tmp_path / "earlier"
    if option:
        seed = 7 if option == "--overwrite" else 0
        KilledCommand((*words, "--seed", seed), only_inputs, trained).run_once(earlier)
        words = (*words, option)

    def prepare(folder: Path) -> None:
        only_inputs(folder)
        if option == "--overwrite":
            shutil.copytree(earlier / "out", folder / "out")
        if option == "--resume":
            (folder / "out").mkdir()
            shutil.copy(earlier / "out" / "recipe.json", folder / "out")

    is_cut = option == "--resume" and not is_exhaustive
    n_runs = KilledCommand(words, prepare, trained).check(
        tmp_path,
        is_exhaustive=is_exhaustive,
        last_call="os.rename out/recipe.json" if is_cut else "",
    )
    print(f"pretrain {option}: {n_runs} runs killed")


@pytest.mark.slow
def test_killed_fine_tuning_ends_as_if_undisturbed(
    domain: Path, tiny: Path, tmp_path: Path
) -> None:
    """Of a model without a softmax, which is fitted first."""
    short = ("--softmax-tokens", 300, "--max-steps", 3, "-q")
    words = finetune_command(domain, tiny, Path("out"), *short)
    command = KilledCommand(words, lambda folder: None, trained)
    n_runs = command.check(tmp_path, is_exhaustive=True)
    print(f"finetune: {n_runs} runs killed")
