"""Models of other families, told by the names of their files and by their first bytes.

Nothing is unpickled or otherwise run: a pickle may do anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.filetypes import FASTTEXT, LFS_POINTER, NUMPY, RAR, SEVEN_ZIP, identify
from elmo_cli.filetypes import PICKLE as PICKLE_FILE

_OWN = "a biLM here is an options.json and a weights.hdf5; `elmo models list` shows published ones"


@dataclass(frozen=True, slots=True)
class Family:
    """What a foreign model is called, with its article, and what can be done about it."""

    name: str
    advice: str = _OWN

    def error(self, where: str | Path) -> ModelError:
        """The error that names it."""
        return ModelError(f"{where}: {self.name}, not an ELMo biLM", self.advice)


MANY_LANGS = Family(
    "an ELMoForManyLangs model",
    "its character CNN reads Unicode characters of one language and can't be converted; use the "
    "package elmoformanylangs for it, or train your own with `elmo pretrain`",
)
SAVED_MODEL = Family(
    "a TensorFlow SavedModel, as TF-Hub has them",
    "take published weights in HDF5 instead, for English `elmo models pull original`",
)
CHECKPOINT = Family(
    "a TensorFlow checkpoint",
    "if bilm-tf made it, `python bin/dump_weights.py --save_dir FOLDER --outfile weights.hdf5` of "
    "bilm-tf writes the weights; put them beside its options.json",
)
TRANSFORMER = Family("a transformer such as BERT")
ALLENNLP = Family(
    "an AllenNLP archive of a task model",
    "its config.json names the biLM it was trained with: give that options_file and weight_file",
)
FLAIR = Family("a flair model")
PYTORCH = Family("a PyTorch file, which is a pickle and is not opened")
PICKLE = Family("a pickle, which is not opened")
WORD_VECTORS = Family(
    "a file of word vectors (GloVe, word2vec or fastText), one a type",
    "these have no biLM; `elmo models list` shows models that give a vector for each token",
)
SAFETENSORS = Family("a safetensors file, as transformers have them")
WEB_PAGE = Family(
    "a web page that was saved in the place of a model",
    "open it in a browser to see what the server said, then download the model again",
)
ONE_PART = Family(
    "one part of a split archive", "join the parts first: `cat NAME.part-* > NAME.tar.gz`"
)
_PART_NAME = re.compile(r"\.(z\d\d|(zip|7z|tgz|tar|gz)\.\w*\d+|part-?\w*\d+|part\d+\.rar)$")
_CHECKPOINT_NAME = re.compile(r"\.ckpt-\d+\.(index|meta|data-\d+-of-\d+)$")
_NUMBER = re.compile(rb"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")
_TRANSFORMER_FILES = frozenset(
    {"bert_config.json", "pytorch_model.bin", "model.safetensors", "tf_model.h5"}
)
_LARGEST_CONFIG = 1 << 20


def family_of_names(names: Iterable[str], read: Callable[[str], bytes]) -> Family | None:
    """The family of a folder or an archive, None if its names tell of none.

    Args:
        names: the names of its files, without folders above them.
        read: the content of one of them, at most a mebibyte.
    """
    found = set(names)
    if {"char.dic", "word.dic"} & found and {"encoder.pkl", "token_embedder.pkl"} & found:
        return MANY_LANGS
    if {"saved_model.pb", "saved_model.pbtxt", "tfhub_module.pb"} & found:
        return SAVED_MODEL
    if any(_CHECKPOINT_NAME.search(name) for name in found):
        return CHECKPOINT
    if "config.json" in found and {"weights.th", "best.th"} & found:
        return ALLENNLP
    if _TRANSFORMER_FILES & found or ("config.json" in found and _has_model_type(read)):
        return TRANSFORMER
    if {"final-model.pt", "best-model.pt"} & found:
        return FLAIR
    return PYTORCH if {"data.pkl", "version"} <= found else None


def family_of_folder(folder: Path) -> Family | None:
    """The family of the model in a folder, by its names, else by its one file."""
    files = sorted(path for path in folder.iterdir() if path.is_file())

    def read(name: str) -> bytes:
        with open(folder / name, "rb") as file:
            return file.read(_LARGEST_CONFIG)

    family = family_of_names((path.name for path in files), read)
    if family is None and len(files) == 1:
        return family_of_file(files[0])
    return family


def family_of_file(path: Path) -> Family | None:
    """The family of a single file, by its first bytes and its name; None if it can't be told."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if path.name == "saved_model.pb":
        return SAVED_MODEL
    if _CHECKPOINT_NAME.search(path.name):
        return CHECKPOINT
    if _PART_NAME.search(path.name):
        return ONE_PART
    return _family_of_content(head, path.suffix)


def _family_of_content(head: bytes, suffix: str) -> Family | None:
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32:
        return SAFETENSORS
    if head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return WEB_PAGE
    found = identify(head)
    if found == PICKLE_FILE:
        return PYTORCH if suffix in (".pt", ".pth", ".th", ".bin") else PICKLE
    if found == FASTTEXT or _looks_like_vectors(head):
        return WORD_VECTORS
    # HDF5 may hold a biLM, and archives are unpacked.
    return Family(found.name, found.hint) if found in (NUMPY, LFS_POINTER, RAR, SEVEN_ZIP) else None


def _looks_like_vectors(head: bytes) -> bool:
    """Whether a file begins with `N DIM` (word2vec) or with a type and its numbers (GloVe)."""
    first = head.split(b"\n", 1)[0]
    if re.fullmatch(rb"\d+ \d+\s*", first) and b"\n" in head:
        return True
    numbers = first.split()[1:]
    # The last number may be cut off by the end of what was read.
    return len(numbers) > 20 and all(_NUMBER.fullmatch(number) for number in numbers[:-1])


def _has_model_type(read: Callable[[str], bytes]) -> bool:
    try:
        content = json.loads(read("config.json"))
    except (ValueError, OSError, RecursionError):
        return False
    return isinstance(content, dict) and "model_type" in content
