"""Shared embedders: one per model and settings in a process, and none from before a fork."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from make_weights import MODELS, write_model

from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ModelError, SettingError
from elmo_cli.interop import shared_embedders
from elmo_cli.interop.shared_embedders import (
    SharedEmbedders,
    check_sha256,
    select_one_vector,
    shared_embedder,
)

SETTINGS = EmbedderSettings(device="cpu")


def test_equal_settings_share_an_embedder_and_other_settings_do_not(tiny, odd):
    embedders = SharedEmbedders()
    first = embedders.get(tiny, SETTINGS)
    assert embedders.get(str(tiny), EmbedderSettings(device="cpu")) is first
    assert embedders.get(tiny, EmbedderSettings(device="cpu", layers="top")) is not first
    assert embedders.get(odd, SETTINGS).bilm.options.n_layers == 3


def test_the_weights_are_in_memory_once(tiny):
    """The fast engine has its own copy; the plain one computes with those of the model."""
    fast = SharedEmbedders().get(tiny, SETTINGS)
    assert all(weight.is_meta for weight in fast.bilm.parameters())
    plain = SharedEmbedders().get(tiny, EmbedderSettings(device="cpu", engine="plain"))
    assert not any(weight.is_meta for weight in plain.bilm.parameters())


def test_a_lock_that_a_thread_of_the_parent_held_is_not_waited_for(tiny):
    embedders = SharedEmbedders()
    embedders._lock.acquire()
    embedders.forget()
    assert embedders._lock.acquire(blocking=False)


def test_a_relative_path_is_that_of_the_working_folder(tiny, odd, tmp_path, monkeypatch):
    embedders = SharedEmbedders()
    n_layers = []
    for name, model in (("a", tiny), ("b", odd)):
        shutil.copytree(model, tmp_path / name / "model")
        monkeypatch.chdir(tmp_path / name)
        n_layers.append(embedders.get("./model", SETTINGS).bilm.options.n_layers)
    assert n_layers == [2, 3]


def test_only_a_few_are_kept(tiny):
    embedders = SharedEmbedders()
    of_layer = {}
    for layers in ("0", "1", "2", "top"):
        of_layer[layers] = embedders.get(tiny, EmbedderSettings(device="cpu", layers=layers))
    assert embedders.get(tiny, EmbedderSettings(device="cpu", layers="0")) is of_layer["0"]
    embedders.get(tiny, EmbedderSettings(device="cpu", layers="sum"))  # the fifth
    assert embedders.get(tiny, EmbedderSettings(device="cpu", layers="0")) is of_layer["0"]
    again = embedders.get(tiny, EmbedderSettings(device="cpu", layers="1"))
    assert again is not of_layer["1"]


def test_a_model_whose_files_have_changed_is_loaded_again(tmp_path):
    embedders = SharedEmbedders()
    write_model(tmp_path / "model", MODELS["tiny"], "tiny")
    before = embedders.get(tmp_path / "model", SETTINGS)
    write_model(tmp_path / "model", MODELS["tiny"], "another")
    after = embedders.get(tmp_path / "model", SETTINGS)
    assert after.bilm.sha256 != before.bilm.sha256


def test_threads_load_a_model_once_and_compute_the_same(tiny):
    embedders = SharedEmbedders()
    n_threads = 4
    all_wait = threading.Barrier(n_threads)

    def embed(_: int) -> tuple[int, np.ndarray]:
        all_wait.wait()
        embedder = embedders.get(tiny, SETTINGS)
        return id(embedder), embedder.embed(["a", "cat"])

    with ThreadPoolExecutor(n_threads) as pool:
        results = list(pool.map(embed, range(n_threads)))
    assert len({number for number, _ in results}) == 1
    assert all((array == results[0][1]).all() for _, array in results)


def test_a_forked_process_loads_its_own_model_and_uses_one_thread(tiny):
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        embedder = shared_embedder(tiny, SETTINGS)
        expected = embedder.embed(["a", "cat"])
        torch.ones(2000, 2000) @ torch.ones(2000, 2000)  # OpenMP starts its threads
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends a child that waits for threads of its parent
            own = shared_embedder(tiny, SETTINGS)
            is_same = np.abs(own.embed(["a", "cat"]) - expected).max() <= 2e-5
            is_fine = is_same and own is not embedder and torch.get_num_threads() == 1
            os._exit(0 if is_fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert torch.get_num_threads() == 2
        assert shared_embedder(tiny, SETTINGS) is embedder
    finally:
        torch.set_num_threads(n_threads)


@pytest.mark.parametrize(("layers", "n_kept"), [("all", 3), ("0,1", 2)])
def test_several_layers_are_no_vector_of_a_token(layers, n_kept):
    with pytest.raises(SettingError, match=f"{n_kept} vectors per token"):
        select_one_vector(layers, 3)
    assert select_one_vector("1", 3).n_kept == 1


def test_another_model_than_the_recorded_one_is_refused():
    check_sha256("model", "ab" * 32, "")
    check_sha256("model", "ab" * 32, "ab" * 32)
    with pytest.raises(ModelError, match=r"^model: its model_sha256 is abababababab…, not cdcdcd"):
        check_sha256(Path("model"), "ab" * 32, "cd" * 32)


def test_importing_the_module_does_not_import_torch():
    code = f"import sys, {shared_embedders.__name__}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
