"""How fast `elmo pretrain` trains on this machine, and where its time goes.

    python tests/bench/train_speed.py TEXT… [--size small] [--steps 12] [--rows 32] [--threads 1]

TEXT is a tokenised text, a sentence a line, .xz or .gz as well. A new biLM of a published size is
trained on it. Printed are

- tokens a second, as the log counts them (each is read once in each direction), with the character
  CNN once a distinct type of a window and, to compare, once a token; in bfloat16; and with memory
  kept as `engine/runtime.py` does it. Variants take turns, step by step, so a busy machine slows
  all alike; figures are medians, and what counts are their ratios;
- the share of a step in each part, forward and backward;
- on a GPU, which is waited for after each part, the share that a step reaches of the rate of a
  large product, timed in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from elmo_cli.engine.runtime import keep_freed_memory, select_device
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.text.input import read_sentences
from elmo_cli.train.corpus import Corpus, Window, windows
from elmo_cli.train.initial import new_model
from elmo_cli.train.run import CHAR_FILTERS
from elmo_cli.train.settings import TrainSettings
from elmo_cli.train.step import Learner
from elmo_cli.train.team import Team

_BUNDLED = Path(__file__).parents[2] / "weights" / "elmo-en" / "options.json"
SIZES = {
    "small": Options(filters=CHAR_FILTERS[2048], lstm_dim=1024, projection_dim=128),
    "medium": Options(filters=CHAR_FILTERS[2048], lstm_dim=2048, projection_dim=256),
    "original": Options(filters=CHAR_FILTERS[2048], lstm_dim=4096, projection_dim=512, n_highway=2),
    "bundled": Options.from_file(_BUNDLED),
}
PARTS = ("CNN", "LSTM", "softmax", "LSTM back", "CNN back", "optimizer")
WARM_UP = 2  # steps that are not counted


class EachToken(Learner):
    """The character CNN once a token, all 50 places of it, as bilm-tf trains."""

    bilm: BiLM
    corpus: Corpus

    def vectors(self, window: Window) -> Tensor:
        ids = torch.from_numpy(self.corpus.characters[window.read.reshape(-1)]).long()
        vectors: Tensor = self.bilm.char_cnn(ids.to(self.bilm.char_cnn.embedding.weight.device))
        return vectors.view(*window.read.shape, -1)


class Variant:
    """A model that is trained in one way."""

    def __init__(
        self,
        corpus: Corpus,
        options: Options,
        settings: TrainSettings,
        team: Team,
        kind: type[Learner] = Learner,
    ) -> None:
        vocabulary = corpus.vocabulary(min_count=2, max_types=25_000)
        model = new_model(options, corpus.predicted_counts(vocabulary), seed=0)
        bilm, head = model[0].to(team.device), model[1].to(team.device)
        self.learner = kind(bilm, head, corpus, vocabulary, settings, team)
        if isinstance(self.learner, EachToken):
            self.learner.bilm, self.learner.corpus = bilm, corpus
        self.state = self.learner.new_state()
        self.is_cuda = team.device.type == "cuda"
        self.seconds: list[list[float]] = []

    def step(self, window: Window) -> None:
        """One step, its parts timed one after the other."""
        learner, times = self.learner, [self.now()]
        learner.forget_gradients()
        vectors = learner.vectors(window)
        times.append(self.now())
        read = vectors.detach().requires_grad_()
        top, self.state = learner.outputs(read, self.state)
        times.append(self.now())
        h = top.detach().requires_grad_()
        (20 * learner.loss_of(h, window, learner.draw())).backward()
        for work in (
            lambda: None,
            lambda: top.backward(h.grad),
            lambda: vectors.backward(read.grad),
            learner.change,
        ):
            work()
            times.append(self.now())
        self.seconds.append([after - before for before, after in itertools.pairwise(times)])

    def now(self) -> float:
        if self.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    @property
    def step_s(self) -> float:
        """Median of the whole steps."""
        return statistics.median(sum(parts) for parts in self.seconds[WARM_UP:])

    def shares(self) -> list[float]:
        """Of each part in all steps."""
        sums = [sum(part) for part in zip(*self.seconds[WARM_UP:], strict=True)]
        return [part / sum(sums) for part in sums]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--bf16", action="store_true", help="on the CPU too, where it may be slow")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    team, options = Team(device=select_device(given.device)), SIZES[given.size]
    lines = itertools.islice(read_sentences(given.texts), given.sentences)
    corpus = Corpus.read(sentence.tokens for sentence in lines)
    print(
        f"{given.size}, {given.rows} rows, {team.device}, {torch.get_num_threads()} threads; "
        f"{corpus.n_tokens:,} tokens, {len(corpus.types):,} types"
    )
    settings = TrainSettings(batch_size=given.rows, max_steps=1)
    bf16 = TrainSettings(batch_size=given.rows, max_steps=1, precision="bf16")
    variants = {
        "once a type": Variant(corpus, options, settings, team),
        "once a token": Variant(corpus, options, settings, team, EachToken),
    }
    if given.bf16 or team.device.type == "cuda":
        variants["once a type, bf16"] = Variant(corpus, options, bf16, team)
    take_turns(variants, corpus, given)
    n_tokens = given.rows * settings.bptt
    first = variants["once a type"].step_s
    print(f"\n{'':<20}{'tokens/s':>10}{'of first':>10}" + "".join(f"{p:>11}" for p in PARTS))
    for name, variant in variants.items():
        shares = "".join(f"{share:>11.1%}" for share in variant.shares())
        rate, ratio = n_tokens / variant.step_s, first / variant.step_s
        print(f"{name:<20}{rate:>10,.0f}{ratio:>10.2f}{shares}")
    print_product(variants, options, n_tokens, team.device)
    if not variants["once a type"].is_cuda:
        print_memory(variants["once a type"], corpus, given)


def take_turns(variants: dict[str, Variant], corpus: Corpus, given: argparse.Namespace) -> None:
    stream = windows(corpus, n_rows=given.rows, n_steps=20, seed=0)
    for window in itertools.islice(stream, WARM_UP + given.steps):
        for variant in variants.values():
            variant.step(window)


def print_product(
    variants: dict[str, Variant], options: Options, n_tokens: int, device: torch.device
) -> None:
    """The rate of a large product, and what share of it a step's LSTM products would take."""
    for name, dtype in (("once a type", torch.float32), ("once a type, bf16", torch.bfloat16)):
        size = 8192 if device.type == "cuda" else 1024
        left = torch.randn(size, size, device=device).to(dtype)
        right, variant = left.t().contiguous(), variants.get(name)
        if variant is None:
            continue
        seconds = []
        for _ in range(6):
            begun = variant.now()
            left @ right
            seconds.append(variant.now() - begun)
        peak = 2 * size**3 / min(seconds)
        # Forward one product of [x ; h] and the projection, backward twice as much.
        layer = (
            2 * options.projection_dim * 4 * options.lstm_dim
            + options.lstm_dim * options.projection_dim
        )
        flops = 3 * 2 * 2 * options.n_layers * layer * n_tokens
        lstm_s = variant.step_s * (variant.shares()[1] + variant.shares()[3])
        print(
            f"{dtype}: product of {size} {peak / 1e9:,.0f} GFLOP/s; "
            f"LSTM layers {flops / lstm_s / 1e9:,.0f} ({flops / lstm_s / peak:.0%})"
        )


def print_memory(variant: Variant, corpus: Corpus, given: argparse.Namespace) -> None:
    """Processor time before and after the allocator is told to keep what is freed."""
    stream = windows(corpus, n_rows=given.rows, n_steps=20, seed=1)
    for name in ("memory given back", "memory kept"):
        for window in itertools.islice(stream, WARM_UP):
            variant.step(window)
        before = resource.getrusage(resource.RUSAGE_SELF)
        for window in itertools.islice(stream, given.steps):
            variant.step(window)
        after = resource.getrusage(resource.RUSAGE_SELF)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        faults = (after.ru_minflt - before.ru_minflt) / given.steps
        print(
            f"{name:<20}a step: user {user / given.steps:.3f} s, "
            f"system {system / given.steps:.3f} s, {faults:,.0f} page faults"
        )
        keep_freed_memory()


if __name__ == "__main__":
    main()
