"""Embed a text with another program; `peers.py` runs this by an interpreter that has the program.

    PYTHON benchmarks/speed/peer_process.py bilm-tf|simple_elmo MODEL TEXT OUTPUT

MODEL is a folder with options.json and weights.hdf5. All layers are computed as the program does by
default. bilm-tf writes them to OUTPUT; simple_elmo returns them and writes nothing. Printed are the
seconds of embedding and the version of TensorFlow, as JSON.
"""

import json
import sys
import time
from importlib import metadata
from pathlib import Path

BATCH = 32  # of simple_elmo: its default
BOUNDARIES = ["<S>", "</S>", "<UNK>"]  # bilm-tf reads them from its vocabulary


def run_simple_elmo(model: str, text: str, output: str) -> float:
    from simple_elmo import ElmoModel  # type: ignore[import-not-found]

    elmo = ElmoModel()
    elmo.load(model, max_batch_size=BATCH)
    sentences = [line.split() for line in Path(text).read_text("utf-8").splitlines()]
    start_s = time.perf_counter()
    elmo.get_elmo_vectors(sentences, layers="all")
    return time.perf_counter() - start_s


def run_bilm_tf(model: str, text: str, output: str) -> float:
    import tensorflow.compat.v1 as tensorflow_1  # type: ignore[import-not-found]

    sys.modules["tensorflow"] = tensorflow_1
    tensorflow_1.disable_eager_execution()
    from bilm import dump_bilm_embeddings  # type: ignore[import-not-found]

    vocabulary = Path(output).with_suffix(".txt")
    vocabulary.write_text("\n".join(BOUNDARIES) + "\n", encoding="utf-8")
    options = f"{model}/options.json"
    start_s = time.perf_counter()
    dump_bilm_embeddings(str(vocabulary), text, options, f"{model}/weights.hdf5", output)
    return time.perf_counter() - start_s


PROGRAMS = {"simple_elmo": run_simple_elmo, "bilm-tf": run_bilm_tf}


if __name__ == "__main__":
    program, *words = sys.argv[1:]
    seconds = PROGRAMS[program](*words)
    print(json.dumps({"embedding_s": seconds, "tensorflow": metadata.version("tensorflow-cpu")}))
