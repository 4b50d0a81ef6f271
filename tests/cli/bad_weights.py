"""Bad input: weights that are damaged, and options that say what the weights do not hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from situations import ARCHIVE_LOCK, bad, cut, file, hdf5, options, stocked, weight, zipped

TINY = stocked("tiny")
MODEL = "EMBED a.txt -m tiny"
W_0 = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
FETCH_AGAIN = "the file may be cut off; fetch it again and compare its size or sha256"
ONE_MODEL = "the options and the weights must come from one model"
THE_OPTIONS = "give the options.json that came with the weights"


def _spoilt(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[0, 0] = value
        return array

    return change


DAMAGED = [
    bad(
        "no options",
        "EMBED a.txt -m m",
        "m/weights.hdf5: no options.json beside it",
        "give the two files of one model: `--options-file FILE --weight-file FILE`",
        stocked("tiny/weights.hdf5", name="m/weights.hdf5"),
    ),
    bad(
        "no weights",
        "EMBED a.txt -m m",
        "m: no weight file in it (options.json)",
        "a model is a folder with options.json and weights.hdf5",
        stocked("tiny/options.json", name="m/options.json"),
    ),
    bad(
        "missing weights",
        "EMBED a.txt --options-file tiny/options.json --weight-file w.hdf5",
        "w.hdf5: no such weight file",
        "a model is an options.json and a weights.hdf5",
        TINY,
    ),
    bad(
        "missing options",
        "EMBED a.txt --options-file o.json --weight-file tiny/weights.hdf5",
        "o.json: no such options file",
        "a model is an options.json and a weights.hdf5",
        TINY,
    ),
    bad(
        "weights cut off",
        MODEL,
        "tiny/weights.hdf5: not a readable HDF5 file (46472 bytes of 86472 are there)",
        FETCH_AGAIN,
        TINY,
        cut("tiny/weights.hdf5", -40_000),
    ),
    bad(
        "empty weights",
        MODEL,
        "tiny/weights.hdf5: not a readable HDF5 file (it does not begin like one)",
        FETCH_AGAIN,
        TINY,
        cut("tiny/weights.hdf5", 0),
    ),
    bad(
        "NaN weights",
        MODEL,
        f"tiny/weights.hdf5: {W_0} holds NaN or infinite numbers",
        "training may have diverged; take an earlier checkpoint of this model",
        TINY,
        weight(W_0, _spoilt(np.nan)),
    ),
    bad(
        "weights of whole numbers",
        MODEL,
        "tiny/weights.hdf5: char_embed holds int32, not float32 or float16",
        "write the weights again as float32",
        TINY,
        weight("char_embed", lambda w: w.astype("i4")),
    ),
    bad(
        "an array is missing",
        MODEL,
        f"tiny/weights.hdf5: {W_0} is missing",
        ONE_MODEL,
        TINY,
        hdf5("tiny/weights.hdf5", lambda f: f.pop(W_0)),
    ),
    bad(
        "zip cut off",
        "EMBED a.txt -m m.zip",
        "m.zip: not a whole zip or tar file (File is not a zip file)",
        "the archive may be cut off; fetch it again and compare its size",
        TINY,
        zipped("m.zip", "tiny/options.json", "tiny/weights.hdf5"),
        cut("m.zip", -200),
        leaves=ARCHIVE_LOCK,
    ),
]

LIES = [
    bad(
        "options not JSON",
        MODEL,
        "tiny/options.json: not JSON (… line 1 column 2 (char 1))",
        THE_OPTIONS,
        TINY,
        file("tiny/options.json", "{'lstm': 5}"),
    ),
    bad(
        "options binary",
        MODEL,
        "tiny/options.json: can't be read ('utf-8' codec can't decode byte 0xff in position 0: …)",
        THE_OPTIONS,
        TINY,
        file("tiny/options.json", b"\xff\xfe\x00"),
    ),
    bad(
        "options without dim",
        MODEL,
        "tiny/options.json: lstm.dim is missing",
        THE_OPTIONS,
        TINY,
        options(lstm__dim=None),
    ),
    bad(
        "wrong dim",
        MODEL,
        "tiny/weights.hdf5: RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0 has shape (16, 64), "
        "options.json asks for (16, 128)",
        ONE_MODEL,
        TINY,
        options(lstm__dim=32),
    ),
    bad(
        "dim without measure",
        MODEL,
        "tiny/options.json: lstm.dim is 1000000000000, not a whole number from 1 to 16777216",
        THE_OPTIONS,
        TINY,
        options(lstm__dim=10**12),
    ),
    bad(
        "wrong filters",
        MODEL,
        "tiny/weights.hdf5: holds CNN/W_cnn_2, options.json says 2 filters",
        ONE_MODEL,
        TINY,
        options(char_cnn__filters=[[1, 4], [2, 9]]),
    ),
    bad(
        "wrong activation",
        MODEL,
        'tiny/options.json: char_cnn.activation is "gelu", not relu or tanh',
        THE_OPTIONS,
        TINY,
        options(char_cnn__activation="gelu"),
    ),
    bad(
        "other characters",
        MODEL,
        "tiny/options.json: char_cnn.n_characters is 5000, a biLM over bytes has 261 or 262",
        "this model reads other characters than UTF-8 bytes and can't be used here",
        TINY,
        options(char_cnn__n_characters=5000),
    ),
]
WEIGHTS = DAMAGED + LIES
