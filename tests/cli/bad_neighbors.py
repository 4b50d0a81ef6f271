"""Bad input: queries of `elmo neighbors` that name nothing, and files that it can't search."""

from __future__ import annotations

import h5py
import numpy as np
from situations import bad, cut, file, hdf5, stocked

OK = stocked("ok.hdf5")
BILM = stocked("bilm.hdf5")
LISTS = "KEY:N is the token N of the sentence KEY, both from 0"
UNTOLD = "KEY:N names a token by its number; a file of `elmo embed --layout flat` tells them"


def _nan(file: h5py.File) -> None:
    file["1"][2, 1, 0] = np.nan


def _zeros(file: h5py.File) -> None:
    file["0"][2, 3] = 0


def _other_model(file: h5py.File) -> None:
    file.attrs["model_sha256"] = "0" * 64


NEIGHBORS = [
    bad(
        "no query",
        "neighbors ok.hdf5",
        "no QUERY is given",
        "`12:3` is token 3 of sentence 12; `elmo kwic ok.hdf5 WORD` lists the occurrences of a "
        "word",
        OK,
        code=2,
    ),
    bad(
        "an empty query",
        "neighbors ok.hdf5 ''",
        "a name is empty: QUERY",
        "is a variable of the shell not set?",
        OK,
        code=2,
    ),
    bad(
        "a query of no sentence",
        "neighbors ok.hdf5 0:1 7:1",
        "ok.hdf5: no sentence '7'; its keys are like …",
        LISTS,
        OK,
        code=2,
    ),
    bad(
        "a word for a query",
        "neighbors ok.hdf5 cat",
        "ok.hdf5: no sentence 'cat'; its keys are like …",
        LISTS,
        OK,
        code=2,
    ),
    bad(
        "a query without a token",
        "neighbors ok.hdf5 1",
        "ok.hdf5: 1 names a sentence, and no token of it",
        "`1:0` is its first token, `1:WORD` the first that is spelled so",
        OK,
        code=2,
    ),
    bad(
        "a token beyond the sentence",
        "neighbors ok.hdf5 1:3",
        "ok.hdf5: sentence 1 has 3 tokens, and no token 3",
        "`1:2` is its last one, `1:=3` one that is spelled 3",
        OK,
        code=2,
    ),
    bad(
        "a word that the sentence lacks",
        "neighbors ok.hdf5 1:cat",
        "ok.hdf5: sentence 1 has no token 'cat'; it has It slept .",
        "`elmo kwic ok.hdf5 cat` lists its occurrences, if any",
        OK,
        code=2,
    ),
    bad(
        "a word of an unknown text",
        "neighbors bilm.hdf5 1:slept",
        "bilm.hdf5: does not tell the tokens of sentence 1",
        "`1:0` is its first token, `1:2` its last",
        BILM,
        code=2,
    ),
    bad(
        "--same-word of an unknown text",
        "neighbors bilm.hdf5 1:1 --same-word",
        "bilm.hdf5: does not tell which word 1:1 is",
        "leave out `--same-word`; a file of `--layout flat` holds the tokens",
        BILM,
        code=2,
    ),
    bad(
        "--same-word among an unknown text",
        "neighbors bilm.hdf5 1:1 --same-word --query-file ok.hdf5",
        "bilm.hdf5: does not tell its tokens",
        UNTOLD,
        BILM,
        OK,
        code=2,
    ),
    bad(
        "kwic of an unknown text",
        "kwic bilm.hdf5 slept",
        "bilm.hdf5: does not tell its tokens",
        UNTOLD,
        BILM,
        code=2,
    ),
    bad(
        "neighbours in a layer beyond the model",
        "neighbors ok.hdf5 0:1 --layer 3",
        "ok.hdf5: --layer 3: it has layers 0, 1, 2",
        "`--layer` takes a layer that the file holds",
        OK,
        code=2,
    ),
    bad(
        "a layer of a file of the top one",
        "neighbors top-2.hdf5 1000:1 --layer 2",
        "top-2.hdf5: --layer 2: the file holds --layers top",
        "leave out `--layer`",
        stocked("top-2.hdf5"),
        code=2,
    ),
    bad(
        "a query of zeros",
        "neighbors ok.hdf5 0:3",
        "ok.hdf5: the vector of 0:3 is all zeros, near to nothing",
        "name another token, or another `--layer`",
        OK,
        hdf5("ok.hdf5", _zeros),
        code=2,
    ),
    bad(
        "NaN among the neighbours",
        "neighbors ok.hdf5 0:1",
        "ok.hdf5: sentence 1, token 1: a value is not finite",
        "`elmo inspect --json ok.hdf5` lists every problem; embed the text anew",
        OK,
        hdf5("ok.hdf5", _nan),
    ),
    bad(
        "queries of another model",
        "neighbors ok.hdf5 0:1 --query-file q.hdf5",
        "q.hdf5: made with tiny (sha256 000000000000…), ok.hdf5 with tiny (sha256 …)",
        "vectors of two models can't be compared: embed both texts with one",
        OK,
        stocked("ok.hdf5", name="q.hdf5"),
        hdf5("q.hdf5", _other_model),
    ),
    bad(
        "queries of another layer",
        "neighbors ok.hdf5 1000:1 --query-file top-2.hdf5 --layer 1",
        "top-2.hdf5: holds --layers top, of ok.hdf5 the layer 1 is asked",
        "embed the queries with `--layers 1`",
        OK,
        stocked("top-2.hdf5"),
    ),
    bad(
        "queries in a text",
        "neighbors ok.hdf5 0:1 --query-file a.txt",
        "a.txt: a text file, not an HDF5 file",
        "`elmo embed` makes embeddings of a text file",
        OK,
    ),
    bad(
        "neighbours in a file that is cut off",
        "neighbors ok.hdf5 0:1",
        "ok.hdf5: cut off: 2000 bytes of … are there",
        "copy it again, or make it anew",
        OK,
        cut("ok.hdf5", 2000),
    ),
    bad(
        "neighbours in an unfinished file",
        "neighbors long.hdf5.part 0:1",
        "long.hdf5.part: its run did not finish",
        "run the same `elmo embed` command with `--resume`",
        stocked("long.hdf5.part", "long.hdf5.part.journal"),
    ),
    bad(
        "neighbours in weights",
        "neighbors tiny/weights.hdf5 0:1",
        "tiny/weights.hdf5: this is a weight file (…), not embeddings",
        "`elmo embed --model` takes the folder that holds it and its options.json",
        stocked("tiny"),
    ),
    bad(
        "neighbours in no file",
        "neighbors b.hdf5 0:1",
        "b.hdf5: no such file",
        "check the name",
        file("c.hdf5"),
    ),
]
