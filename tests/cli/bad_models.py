"""Bad input: models that are not there, or are of another family."""

from __future__ import annotations

from situations import ARCHIVE_LOCK, bad, cut, file, folder, stocked, zipped

OPTIONS_FILE = stocked("tiny/options.json", name="m/options.json")
MANY_LANGS = ("char.dic", "word.dic", "encoder.pkl", "token_embedder.pkl", "config.json")
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 86472\n"
IN_BILM = "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1"

NAMES = [
    bad(
        "near miss",
        "EMBED a.txt -m orginal",
        "no model named `orginal`",
        "did you mean `original`? `elmo models list` shows all names",
    ),
    bad(
        "no such name",
        "EMBED a.txt -m zzzz",
        "no model named `zzzz`",
        "`elmo models list` shows all names; a path to a folder, a zip or a tar.gz works too",
    ),
    bad(
        "not on this machine",
        "EMBED a.txt -m original",
        "the model `original` is not on this machine",
        "`elmo models pull original`",
    ),
    bad(
        "no such folder of a model",
        "EMBED a.txt -m models/mine",
        "models/mine: no such file or folder",
        "check the path; `elmo models list` shows the models that have a name",
    ),
    bad(
        "address",
        "EMBED a.txt -m https://example.org/elmo.zip",
        "https://example.org/elmo.zip: an address, not a file",
        "download it, then give its path; `elmo models pull` fetches published models",
    ),
    bad(
        "the text in the place of the model",
        "EMBED a.txt -m a.txt",
        "a.txt: not a model, nor a file of weights by its name",
        "a model is a folder, a zip or a tar.gz with options.json and weights.hdf5",
    ),
    bad(
        "show of no such name",
        "models show zzzz",
        "no model named `zzzz`",
        "`elmo models list` shows all names; a path to a folder, a zip or a tar.gz works too",
    ),
    bad(
        "show of a folder without options",
        "models show m",
        "m/weights.hdf5: no options.json beside it",
        "give the two files of one model: `--options-file FILE --weight-file FILE`",
        stocked("tiny/weights.hdf5", name="m/weights.hdf5"),
    ),
    bad(
        "show of weights cut off",
        "models show tiny",
        "tiny/weights.hdf5: not a readable HDF5 file (…",
        "the file may be cut off; fetch it again and compare its size or sha256",
        stocked("tiny"),
        cut("tiny/weights.hdf5", 2000),
    ),
    bad(
        "pull of no such name",
        "models pull zzzz",
        "no model named `zzzz`",
        "`elmo models list` shows all names",
    ),
    bad(
        "pull offline",
        "models pull small",
        "the model `small` is not on this machine, and ELMO_OFFLINE is set",
        "put its options.json and weights.hdf5 into /…/home/models/small, or unset ELMO_OFFLINE "
        "and `elmo models pull small`",
        env={"ELMO_OFFLINE": "1"},
    ),
    bad(
        "$ELMO_HOME a file",
        "models pull small",
        "…/home/models/small: can't be written to (Not a directory)",
        "set ELMO_HOME to a folder that can be written to and has space",
        file("home"),
    ),
]

FOREIGN = [
    bad(
        "empty folder",
        "EMBED a.txt -m m",
        "m: no weight file in it (the folder is empty)",
        "a model is a folder with options.json and weights.hdf5",
        folder("m"),
    ),
    bad(
        "ELMoForManyLangs",
        "EMBED a.txt -m m",
        "m: an ELMoForManyLangs model, not an ELMo biLM",
        "its character CNN reads Unicode characters of one language and can't be converted; use "
        "the package elmoformanylangs for it, or train your own with `elmo pretrain`",
        *(file(f"m/{name}", "x") for name in MANY_LANGS),
    ),
    bad(
        "SavedModel",
        "EMBED a.txt -m m",
        "m: a TensorFlow SavedModel, as TF-Hub has them, not an ELMo biLM",
        "take published weights in HDF5 instead, for English `elmo models pull original`",
        file("m/saved_model.pb", b"\x08\x01"),
        file("m/variables/variables.index", b"x"),
    ),
    bad(
        "word vectors",
        "EMBED a.txt -m glove.txt",
        "glove.txt: a file of word vectors (GloVe, word2vec or fastText), one a type, not an ELMo "
        "biLM",
        "these have no biLM; `elmo models list` shows models that give a vector for each token",
        file("glove.txt", "the " + " ".join(["0.25"] * 50) + "\n"),
    ),
    bad(
        "embeddings as weights",
        "EMBED a.txt -m m",
        "m/weights.hdf5: no char_embed in it, so these are not biLM weights (found 0, 1, "
        "sentence_to_index)",
        IN_BILM,
        OPTIONS_FILE,
        stocked("ok.hdf5", name="m/weights.hdf5"),
    ),
    bad(
        "web page as weights",
        "EMBED a.txt -m m",
        "m/weights.hdf5: a web page that was saved in the place of a model, not an ELMo biLM",
        "open it in a browser to see what the server said, then download the model again",
        OPTIONS_FILE,
        file("m/weights.hdf5", "<!DOCTYPE html><p>404</p>"),
    ),
    bad(
        "Git LFS pointer as weights",
        "EMBED a.txt -m m",
        "m/weights.hdf5: a Git LFS pointer that stands for the file, not an ELMo biLM",
        "run `git lfs pull` where it was cloned",
        OPTIONS_FILE,
        file("m/weights.hdf5", POINTER),
    ),
]

ARCHIVES = [
    bad(
        "zip without weights",
        "EMBED a.txt -m m.zip",
        "m.zip: no weight file in it (options.json, vocab.txt)",
        "a model is an archive with options.json and weights.hdf5",
        zipped("m.zip", "options.json={}", "vocab.txt=the"),
        leaves=ARCHIVE_LOCK,
    ),
    bad(
        "zip that leaves its folder",
        "EMBED a.txt -m m.zip",
        "m.zip: not unpacked, the member '../weights.hdf5' leads out of the folder",
        "unpack it by hand if you trust it, and give the folder",
        zipped("m.zip", "../weights.hdf5=x", "options.json={}"),
        leaves=ARCHIVE_LOCK,
    ),
]
MODELS = NAMES + FOREIGN + ARCHIVES
