"""What `elmo embed --ray` costs: beside one process, for each piece, and as a text grows.

    python tests/bench/cluster_speed.py TEXT… [-m MODEL | --size small] [--json]

TEXT is a tokenised text, a sentence a line, .xz or .gz as well; it is read as often as need be.
Ray makes a cluster of this machine for each run. A run with the bundled model writes 3 kB a token
into $TMPDIR, which is removed after it. Printed are

- steady tokens/s of one process of 2 threads and of 2 workers of 1 thread, which take turns, so
  that a busy machine slows both alike, and their ratio. Steady is, in one process, from its first
  block to its last; on a cluster for each worker from its first piece to its last that was done
  while all were at work, waiting between pieces included;
- overhead for each piece: of that time, what the workers were not at work, by the number of pieces;
- what it takes Ray and the workers to begin, and to end;
- for each number of short lines, with a model so small that it hardly counts: the time to look at
  the text, that of the workers, that between pieces, and all of it for a line; and the memory of
  the command.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embed_speed import SIZES, make_model

from elmo_cli.cluster.run import Cluster, run_on_cluster
from elmo_cli.cluster.source import survey_of
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embedder_of, run_with
from elmo_cli.engine.runtime import set_num_threads
from elmo_cli.model.options import Options
from elmo_cli.text.input import read_sentences

WORKERS = 2
NEXT_TO_NOTHING = Options(
    filters=((1, 4), (2, 8), (3, 4)), lstm_dim=16, projection_dim=8, char_dim=4
)
SHORT = "Line {} is short ."


@dataclass(frozen=True)
class Steady:
    """A run, while all of it was at work.

    Attributes:
        tokens: computed in that time.
        rate: tokens a second.
    """

    tokens: int
    rate: float


@dataclass(frozen=True)
class ClusterRun:
    """A run on a cluster.

    Attributes:
        steady: while all workers were at work.
        n_pieces, n_tokens: of the text.
        survey_s: looking at the text.
        begin_s: all else until the beginning of the first piece: Ray, workers, models.
        busy_s: of all workers together.
        between_s: of all workers together, between the end of a piece and the end of the next, less
            what that took the worker; from a worker's first piece to its last.
        n_between: pieces that came after another one.
        end_s: from the last piece to the end of the cluster.
        whole_s: all of it.
        peak_mb: memory of the process that gave the command.
    """

    steady: Steady
    n_pieces: int
    n_tokens: int
    survey_s: float
    begin_s: float
    busy_s: float
    between_s: float
    n_between: int
    end_s: float
    whole_s: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+")
    parser.add_argument("-m", "--model", help="name or folder; the bundled one if not given")
    parser.add_argument("--size", choices=SIZES, help="a model of this size, of random weights")
    parser.add_argument("--tokens", type=int, default=1_200_000, help="of each run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind (%(default)s)")
    parser.add_argument("--lines", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.rounds:
            model = given.model
            if given.size:
                model = str(folder / given.size)
                make_model(SIZES[given.size], Path(model))
            corpus = folder / "corpus.txt"
            write_text(given.texts, given.tokens, corpus)
            facts |= side_by_side(corpus, model, given.rounds, folder)
            facts = {"model": given.size or given.model or "bundled", **facts}
            if not given.json:
                print_side_by_side(facts)
        if given.lines:
            facts["growth"] = growth(given.lines, folder)
            if not given.json:
                print_growth(facts["growth"])
    if given.json:
        print(json.dumps(facts))


def side_by_side(corpus: Path, model: str | None, rounds: int, folder: Path) -> dict[str, Any]:
    """One process and a cluster, in turns."""
    alone: list[Steady] = []
    together: list[ClusterRun] = []
    for number in range(rounds):
        out = folder / "out"
        alone.append(apart(one_process, str(corpus), f"{out}-{number}.hdf5", model))
        Path(f"{out}-{number}.hdf5").unlink()
        together.append(apart(on_cluster, str(corpus), f"{out}-{number}/", model))
        remove(Path(f"{out}-{number}"))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rate_alone = statistics.mean(run.rate for run in alone)
    rate_together = statistics.mean(run.steady.rate for run in together)
    between, n_between = sum(r.between_s for r in together), sum(r.n_between for r in together)
    return {
        "one process of 2 threads": [asdict(run) for run in alone],
        "2 workers of 1 thread": [asdict(run) for run in together],
        "ratio": rate_together / rate_alone,
        "overhead a piece, ms": 1000 * between / n_between if n_between else None,
        "work a piece, ms": 1000 * statistics.mean(r.busy_s / r.n_pieces for r in together),
    }


def growth(numbers: list[int], folder: Path) -> list[dict[str, Any]]:
    """A cluster's run over so many short lines, for each number."""
    model, corpus, out = folder / "next-to-nothing", folder / "short.txt", folder / "short"
    make_model(NEXT_TO_NOTHING, model)
    rows = []
    for n_lines in numbers:
        with corpus.open("w") as file:
            file.writelines(SHORT.format(i) + "\n" for i in range(n_lines))
        run = apart(on_cluster, str(corpus), f"{out}/", str(model))
        remove(out)
        cost_s = run.survey_s + run.busy_s + run.between_s
        rows.append({"lines": n_lines, **asdict(run), "µs a line": 1e6 * cost_s / n_lines})
    return rows


def apart(work: Callable[..., Any], *given: Any) -> Any:
    """Do some work in a new process, whose memory and threads nobody has used before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, given)


class Blocks:
    """When each block of a run was written, and how many tokens it has."""

    def __init__(self) -> None:
        self.done: list[tuple[float, int]] = []

    def start(self, tokens: int | None, done: int) -> None:
        return

    def advance(self, tokens: int) -> None:
        self.done.append((time.monotonic(), tokens))


def one_process(corpus: str, out: str, model: str | None) -> Steady:
    """`elmo embed --threads 2`."""
    set_num_threads(2)
    job, blocks = EmbedJob((corpus,), out, model=model), Blocks()
    run_with(job, embedder_of(job), blocks)
    return steady([blocks.done])


def on_cluster(corpus: str, out: str, model: str | None) -> ClusterRun:
    """`elmo embed --ray --workers 2 --threads 1`."""
    logging.disable(logging.WARNING)  # of Ray, about its own
    rows: list[tuple[float, dict[str, Any]]] = []  # by the worker's clock: rows arrive in heaps
    job = EmbedJob((corpus,), out, model=model)
    begun = time.time()
    survey_of(job)  # by itself: a run looks at the text when Ray is there
    survey_s = time.time() - begun
    begun = time.time()
    run_on_cluster(
        job,
        Cluster(workers=WORKERS, threads=1),
        advance=lambda row: rows.append((row["begun"] + row["seconds"], row)),
    )
    ended = time.time()
    rows.sort(key=lambda done: done[0])
    missing = [row["error"] for _, row in rows if row["error"]]
    if missing:
        sys.exit(f"shards are missing: {missing[0]}")
    of_worker: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for at, row in rows:
        of_worker.setdefault(row["worker"], []).append((at, row))
    between, n_between = 0.0, 0
    for done in of_worker.values():
        between += done[-1][0] - done[0][0] - sum(row["seconds"] for _, row in done[1:])
        n_between += len(done) - 1
    first_at, first = min(rows, key=lambda done: done[0] - done[1]["seconds"])
    return ClusterRun(
        steady([[(at, row["tokens"]) for at, row in done] for done in of_worker.values()]),
        n_pieces=len(rows),
        n_tokens=sum(row["tokens"] for _, row in rows),
        survey_s=survey_s,
        begin_s=first_at - first["seconds"] - begun - survey_s,
        busy_s=sum(row["seconds"] for _, row in rows),
        between_s=between,
        n_between=n_between,
        end_s=ended - max(at for at, _ in rows),
        whole_s=ended - begun,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def steady(done: list[list[tuple[float, int]]]) -> Steady:
    """Of workers side by side, from the first piece of each to its last while all are at work.

    Args:
        done: for each worker when its pieces were done, in order, and how many tokens each has.
    """
    end = min(pieces[-1][0] for pieces in done)
    tokens, rate = 0, 0.0
    for pieces in done:
        taken = [(at, n_tokens) for at, n_tokens in pieces if at <= end]
        if len(taken) < 2:
            continue  # too short a text to tell
        n_tokens = sum(n_tokens for _, n_tokens in taken[1:])
        tokens += n_tokens
        rate += n_tokens / (taken[-1][0] - taken[0][0])
    return Steady(tokens, rate)


def write_text(sources: list[str], n_tokens: int, path: Path) -> None:
    """Sentences of texts, again and again, until there are so many tokens."""
    total = 0
    with path.open("w", encoding="utf-8") as file:
        for tokens in itertools.chain.from_iterable(map(lines_of, itertools.cycle([sources]))):
            if total >= n_tokens:
                return
            total += len(tokens)
            file.write(" ".join(tokens) + "\n")


def lines_of(sources: list[str]) -> Iterator[tuple[str, ...]]:
    for sentence in read_sentences(sources):
        yield sentence.tokens


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def print_side_by_side(facts: dict[str, Any]) -> None:
    print(f"\nmodel {facts['model']}, steady tokens/s")
    alone, together = facts["one process of 2 threads"], facts["2 workers of 1 thread"]
    for name, runs in (
        ("one process of 2 threads", alone),
        ("2 workers of 1 thread", [run["steady"] for run in together]),
    ):
        rates = "".join(f"{run['rate']:>12,.0f}" for run in runs)
        print(f"  {name:26}{rates}   over {runs[0]['tokens']:,} tokens")
    print(f"  {'ratio':26}{facts['ratio']:>12.2f}")
    print(f"  {'work a piece, ms':26}{facts['work a piece, ms']:>12,.0f}", end="")
    print(f"   {together[0]['n_pieces']} pieces, {together[0]['n_tokens']:,} tokens")
    if facts["overhead a piece, ms"] is not None:
        print(f"  {'overhead a piece, ms':26}{facts['overhead a piece, ms']:>12,.0f}")
    for name, key in (("to begin, s", "begin_s"), ("to end, s", "end_s")):
        print(f"  {name:26}" + "".join(f"{run[key]:>12.1f}" for run in together))


def print_growth(rows: list[dict[str, Any]]) -> None:
    columns = {
        "lines": ("lines", ",d"),
        "pieces": ("n_pieces", ",d"),
        "look, s": ("survey_s", ",.1f"),
        "workers, s": ("busy_s", ",.1f"),
        "between, s": ("between_s", ",.2f"),
        "µs a line": ("µs a line", ",.0f"),
        "all, s": ("whole_s", ",.1f"),
        "peak MB": ("peak_mb", ",.0f"),
    }
    print(f"\nshort lines, {WORKERS} workers of 1 thread")
    print("".join(f"{name:>12}" for name in columns))
    for row in rows:
        print("".join(f"{row[key]:>12{form}}" for key, form in columns.values()))


if __name__ == "__main__":
    main()
