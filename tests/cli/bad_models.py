"""Bad input: models that are not there, damaged, foreign, or say one thing and hold another."""

from __future__ import annotations

import h5py
import numpy as np
SAYS = HINT = "?"
from situations import Bad, cut, file, folder, hdf5, options, stocked, weight, zipped

OK = file("a.txt")
TINY = (OK, stocked("tiny"))
MODEL = "EMBED a.txt -m tiny"
W_0 = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"


def _spoilt(value: float):
    def change(array: np.ndarray) -> np.ndarray:
        array[0, 0] = value
        return array

    return change


def _keras(file: h5py.File) -> None:
    file.attrs["keras_version"] = "2.4.0"
    file.create_group("model_weights/dense_1")


NAMES = [
    Bad("near miss", "EMBED a.txt -m orginal", SAYS, HINT, makes=(OK,)),
    Bad("no such name", "EMBED a.txt -m zzzz", SAYS, HINT, makes=(OK,)),
    Bad("not on this machine", "EMBED a.txt -m original", SAYS, HINT, makes=(OK,)),
    Bad("no such folder", "EMBED a.txt -m models/mine", SAYS, HINT, makes=(OK,)),
    Bad("address", "EMBED a.txt -m https://example.org/elmo.zip", SAYS, HINT, makes=(OK,)),
    Bad("empty name of a model", "EMBED a.txt -m ''", SAYS, HINT, makes=(OK,), code=2),
    Bad("show a near miss", "models show orignal", SAYS, HINT),
    Bad("pull offline", "models pull small", SAYS, HINT, env={"ELMO_OFFLINE": "1"}),
    Bad("unknown models command", "models fetch small", SAYS, HINT, code=2),
    Bad("the text in the place of the model", "EMBED a.txt -m a.txt", SAYS, HINT, makes=(OK,)),
    Bad("$ELMO_HOME a file", "models pull small", SAYS, HINT, makes=(file("home"),), env={"ELMO_HOME": "home"}),
]

FOREIGN = [
    Bad("empty folder", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, folder("m"))),
    Bad("ELMoForManyLangs", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, *(file(f"m/{n}", "x") for n in ("char.dic", "word.dic", "encoder.pkl", "token_embedder.pkl", "config.json")))),
    Bad("SavedModel", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, file("m/saved_model.pb", b"\x08\x01"), file("m/variables/variables.index", b"x"))),
    Bad("BERT", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, file("m/config.json", '{"model_type": "bert"}'), file("m/pytorch_model.bin", b"\x80\x02"))),
    Bad("Keras", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, file("m/options.json", "{}"), hdf5("m/weights.hdf5", _keras))),
    Bad("word vectors", "EMBED a.txt -m glove.txt", SAYS, HINT, makes=(OK, file("glove.txt", "the " + " ".join(["0.25"] * 50) + "\n"))),
    Bad("embeddings as weights", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, stocked("ok.hdf5", name="m/weights.hdf5"), stocked("tiny/options.json", name="m/options.json"))),
    Bad("web page as weights", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, file("m/weights.hdf5", "<!DOCTYPE html><p>404</p>"), file("m/options.json", "{}"))),
]

WEIGHTS = [
    Bad("no options", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, stocked("tiny/weights.hdf5", name="m/weights.hdf5"))),
    Bad("no weights", "EMBED a.txt -m m", SAYS, HINT, makes=(OK, stocked("tiny/options.json", name="m/options.json"))),
    Bad("missing weights", "EMBED a.txt --options tiny/options.json --weights w.hdf5", SAYS, HINT, makes=TINY),
    Bad("missing options", "EMBED a.txt --options o.json --weights tiny/weights.hdf5", SAYS, HINT, makes=TINY),
    Bad("weights cut off", MODEL, SAYS, HINT, makes=(*TINY, cut("tiny/weights.hdf5", -40_000))),
    Bad("weights cut to the head", MODEL, SAYS, HINT, makes=(*TINY, cut("tiny/weights.hdf5", 100))),
    Bad("empty weights", MODEL, SAYS, HINT, makes=(*TINY, cut("tiny/weights.hdf5", 0))),
    Bad("NaN weights", MODEL, SAYS, HINT, makes=(*TINY, weight(W_0, _spoilt(np.nan)))),
    Bad("infinite weights", MODEL, SAYS, HINT, makes=(*TINY, weight("char_embed", _spoilt(np.inf)))),
    Bad("weights of whole numbers", MODEL, SAYS, HINT, makes=(*TINY, weight("char_embed", lambda w: w.astype("i4")))),
    Bad("weights too short", MODEL, SAYS, HINT, makes=(*TINY, weight("CNN/b_cnn_1", lambda w: w[:-1]))),
    Bad("an array is missing", MODEL, SAYS, HINT, makes=(*TINY, hdf5("tiny/weights.hdf5", lambda f: f.pop(W_0)))),
    Bad("zip without weights", "EMBED a.txt -m m.zip", SAYS, HINT, makes=(OK, zipped("m.zip", "options.json={}", "vocab.txt=the"))),
    Bad("zip cut off", "EMBED a.txt -m m.zip", SAYS, HINT, makes=(*TINY, zipped("m.zip", "tiny/options.json", "tiny/weights.hdf5"), cut("m.zip", -200))),
    Bad("zip that leaves its folder", "EMBED a.txt -m m.zip", SAYS, HINT, makes=(OK, zipped("m.zip", "../weights.hdf5=x", "options.json={}"))),
    Bad("zip when $ELMO_HOME is a file", "EMBED a.txt -m m.zip", SAYS, HINT, makes=(*TINY, file("home"), zipped("m.zip", "tiny/options.json", "tiny/weights.hdf5")), env={"ELMO_HOME": "home"}),
]

LIES = [
    Bad("options not JSON", MODEL, SAYS, HINT, makes=(*TINY, file("tiny/options.json", "{'lstm': 5}"))),
    Bad("options empty", MODEL, SAYS, HINT, makes=(*TINY, file("tiny/options.json", ""))),
    Bad("options a list", MODEL, SAYS, HINT, makes=(*TINY, file("tiny/options.json", "[1, 2]"))),
    Bad("options binary", MODEL, SAYS, HINT, makes=(*TINY, file("tiny/options.json", b"\xff\xfe\x00"))),
    Bad("options without dim", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__dim=None))),
    Bad("wrong dim", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__dim=32))),
    Bad("wrong projection_dim", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__projection_dim=9))),
    Bad("too many layers", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__n_layers=3))),
    Bad("negative layers", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__n_layers=-1))),
    Bad("dim without measure", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__dim=10**12))),
    Bad("wrong filters", MODEL, SAYS, HINT, makes=(*TINY, options(char_cnn__filters=[[1, 4], [2, 9]]))),
    Bad("filters a word", MODEL, SAYS, HINT, makes=(*TINY, options(char_cnn__filters="many"))),
    Bad("wrong n_highway", MODEL, SAYS, HINT, makes=(*TINY, options(char_cnn__n_highway=0))),
    Bad("wrong activation", MODEL, SAYS, HINT, makes=(*TINY, options(char_cnn__activation="gelu"))),
    Bad("other characters", MODEL, SAYS, HINT, makes=(*TINY, options(char_cnn__n_characters=5000))),
    Bad("wrong clip", MODEL, SAYS, HINT, makes=(*TINY, options(lstm__cell_clip="3"))),
]
MODELS = NAMES + FOREIGN + WEIGHTS + LIES
