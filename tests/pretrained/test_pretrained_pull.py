"""Published models in the cache: fetched once, checked, and never fetched unasked."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import json
import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from local_server import LocalServer, answer, cut_off, status
from tiny_model import OPTIONS, write_tiny_model

from elmo_cli.errors import DownloadError, ModelError, OutputError, WeightFileError
from elmo_cli.pretrained import cache, catalogue
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, find
from elmo_cli.pretrained.download import Patience
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.pull import files_of_model, pull, where_is
from elmo_cli.weightfile.describe import probe_hdf5

QUICK = Patience(timeout_s=0.3, tries=2, pause_s=0.001)


def without_hash(model: Model) -> Model:
    return replace(model, files=tuple(replace(f, bytes=None, sha256=None) for f in model.files))


def test_a_pulled_model_is_in_the_cache(server: LocalServer, model: Model, home: Path) -> None:
    """Where it is kept is what people are told to copy to a machine without a network."""
    files = pull(model, patience=QUICK)
    assert files.weights == home / "models" / "tiny" / "weights.hdf5"
    assert files.weights.read_bytes() == server.files["weights.hdf5"]
    assert (files.name, files.origin) == ("tiny", "cached")
    record = json.loads((home / "models" / "tiny" / "sha256.json").read_text())
    assert record["weights.hdf5"]["sha256"] == model.files[1].sha256


def test_progress_runs_over_all_files(model: Model) -> None:
    """The bar of the command counts bytes of the whole model."""
    seen: list[int] = []
    pull(model, on_bytes=lambda done, total: seen.append(done), patience=QUICK)
    assert seen == sorted(seen)
    assert seen[-1] == len(json.dumps(OPTIONS)) + (model.files[1].bytes or 0)


def test_no_request_when_cached(
    server: LocalServer, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even with the network there; and with ELMO_OFFLINE it works all the same."""
    pull(model, patience=QUICK)
    server.seen.clear()
    pull(model, patience=QUICK)
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    assert pull(model, patience=QUICK).sha256 == files_of_model(model).sha256
    with pytest.raises(ModelError, match="`tiny` is not fetched again, since ELMO_OFFLINE is set"):
        pull(model, force=True)
    os.truncate(files_of_model(model).weights, 100)
    with pytest.raises(ModelError, match="`tiny` is damaged, and ELMO_OFFLINE is set"):
        pull(model)
    assert server.seen == []


def test_no_request_when_offline(
    server: LocalServer, model: Model, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ELMO_OFFLINE is a promise."""
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    for attempt in (pull, files_of_model):
        with pytest.raises(ModelError, match="`tiny` is not on this machine, and ELMO_OFFLINE"):
            attempt(model)
    with pytest.raises(ModelError) as caught:
        pull(model, force=True)
    assert str(home / "models" / "tiny") in caught.value.hint
    assert server.seen == []


def test_files_of_model_never_fetches(server: LocalServer, model: Model) -> None:
    """`elmo embed --model NAME` must not start a download of half a gigabyte by itself."""
    with pytest.raises(ModelError, match="the model `tiny` is not on this machine") as caught:
        files_of_model(model)
    assert caught.value.hint == "`elmo models pull tiny`"
    assert server.seen == []


def test_only_what_is_missing_is_fetched(server: LocalServer, model: Model) -> None:
    """After a failure of the large file the small one is there."""
    server.acts["weights.hdf5"] = [status(404)]
    with pytest.raises(DownloadError):
        pull(model, patience=QUICK)
    assert where_is(model) is None
    pull(model, patience=QUICK)
    assert [path for path, _ in server.seen] == ["/options.json", "/weights.hdf5", "/weights.hdf5"]


def test_a_file_put_there_by_hand_is_checked_and_taken(
    server: LocalServer, model: Model, home: Path
) -> None:
    """The way for those who have no network there."""
    write_tiny_model(home / "models" / "tiny")
    assert pull(model, patience=QUICK).weights_sha256 == model.files[1].sha256
    assert server.seen == []


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_a_damaged_file_is_told_and_fetched_again(
    server: LocalServer, model: Model, damage: object
) -> None:
    """Otherwise vectors of a broken model come out without a word."""
    weights = pull(model, patience=QUICK).weights
    weights.write_bytes(damage(weights.read_bytes()))
    os.utime(weights, ns=(1, 1))
    with pytest.raises(ModelError, match="the catalogue says") as caught:
        files_of_model(model)
    assert str(weights) in caught.value.message
    assert caught.value.hint == "`elmo models pull tiny --overwrite` fetches it again"
    assert pull(model, patience=QUICK).weights_sha256 == model.files[1].sha256


def test_force_keeps_the_old_files_until_the_new_ones_are_right(
    server: LocalServer, model: Model
) -> None:
    weights = pull(model, patience=QUICK).weights
    before = weights.read_bytes()
    server.acts["weights.hdf5"] = [cut_off(10)] * 5
    with pytest.raises(DownloadError):
        pull(model, force=True, patience=QUICK)
    assert weights.read_bytes() == before
    server.acts.clear()
    assert pull(model, force=True, patience=QUICK).weights_sha256 == model.files[1].sha256


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("weights.hdf5", b"AccessDenied", "is not a whole HDF5 file"),
        ("options.json", b"AccessDenied", "not JSON"),
        ("options.json", b'{"lstm": {}}', "char_cnn is missing"),
    ],
)
def test_content_is_checked_where_no_hash_is_known(
    server: LocalServer, model: Model, name: str, body: bytes, said: str
) -> None:
    """Servers answer 200 with an error page in all kinds of formats."""
    server.acts[name] = [answer(body)]
    with pytest.raises(DownloadError, match=said):
        pull(without_hash(model), patience=QUICK)
    assert where_is(model) is None


def test_what_is_wrong_with_options_is_told_below_any_folder(
    server: LocalServer, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the name of the folder would stand where the reason is to be."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "models: mine"))
    server.acts["options.json"] = [answer(b"{}")]
    with pytest.raises(DownloadError) as caught:
        pull(model, patience=QUICK)
    assert caught.value.message == f"{server.address('options.json')}: char_cnn is missing"


def test_a_file_that_no_hash_is_known_of_is_tried_in_a_child(
    model: Model, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was put there by hand may come from anywhere, and crash HDF5."""
    folder = write_tiny_model(home / "models" / "tiny")
    kept = Path(__file__).parents[1] / "fuzz" / "kept" / "crash-btree.gz"
    for name in ("weights.hdf5", "state.hdf5"):
        content = (folder / "weights.hdf5").read_bytes()
        (folder / name).write_bytes(gzip.decompress(kept.read_bytes()))
        try:
            probe_hdf5([folder / name])
        except WeightFileError as error:
            published = without_hash(model) if name == "weights.hdf5" else model
            monkeypatch.setitem(catalogue._BY_NAME, "tiny", published)
            with pytest.raises(WeightFileError, match=re.escape(error.message)):
                locate("tiny")
        else:
            pytest.skip("this HDF5 finds the damage itself")
        (folder / "weights.hdf5").write_bytes(content)


def test_half_a_weight_file_is_not_taken(server: LocalServer, model: Model) -> None:
    """A server that states no length and hangs up early."""
    half = server.files["weights.hdf5"][:3000]
    server.acts["weights.hdf5"] = [answer(half)]
    with pytest.raises(DownloadError, match="is not a whole HDF5 file"):
        pull(without_hash(model), patience=QUICK)


def test_options_of_another_model_are_refused(model: Model) -> None:
    """A mirror that mixed up two models gives vectors of neither."""
    other = replace(model, sizes=replace(model.sizes, lstm_dim=4096))
    with pytest.raises(DownloadError, match="says lstm_dim 6, the catalogue says 4096"):
        pull(other, patience=QUICK)


def test_two_pulls_at_once_fetch_once(server: LocalServer, model: Model) -> None:
    """Shards that start together must not write into one part file."""
    waited = threading.Event()
    release = threading.Event()
    server.acts["options.json"] = [
        lambda handler, content: (release.wait(5), answer(content)(handler, b""))
    ]
    threads = [
        threading.Thread(target=pull, args=(model,), kwargs={"on_wait": waited.set})
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert waited.wait(5)
    server.acts["options.json"] = []
    release.set()
    for thread in threads:
        thread.join()
    assert sorted(path for path, _ in server.seen).count("/weights.hdf5") == 1
    assert where_is(model) is not None


def test_a_home_without_locks(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network disks may have none; no model could be fetched there."""

    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert pull(model, patience=QUICK).weights_sha256 == model.files[1].sha256


def test_a_home_that_can_not_be_made(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in its place: the message names it, the hint names ELMO_HOME."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="file/models/tiny: can't be written to") as caught:
        pull(model, patience=QUICK)
    assert "ELMO_HOME" in caught.value.hint


def test_where_the_home_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ELMO_HOME, then XDG_CACHE_HOME (absolute ones only), then ~/.cache."""
    monkeypatch.setenv("ELMO_HOME", "~/models")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.elmo_home() == tmp_path / "models"
    monkeypatch.setenv("ELMO_HOME", "")
    assert cache.elmo_home() == Path("/xdg/elmo")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.elmo_home() == tmp_path / ".cache" / "elmo"


def test_a_changed_file_gets_a_new_hash(home: Path, tmp_path: Path) -> None:
    """The kept hash is good for one size and time of change; a damaged record is no obstacle."""
    folder = home / "models" / "m"
    folder.mkdir(parents=True)
    file = folder / "weights.hdf5"
    for content in (b"one", b"other"):
        file.write_bytes(content)
        assert cache.sha256_of(file) == hashlib.sha256(content).hexdigest()
    (folder / "sha256.json").write_text('{"weights.hdf5": "x", "a": 1}')
    cache._sha256.cache_clear()
    assert cache.sha256_of(file) == hashlib.sha256(b"other").hexdigest()


def test_hashes_outside_the_home_leave_no_file(tmp_path: Path) -> None:
    """A folder of the user's is read, never written to."""
    file = tmp_path / "mine" / "weights.hdf5"
    file.parent.mkdir()
    file.write_bytes(b"x")
    cache.sha256_of(file)
    assert [p.name for p in file.parent.iterdir()] == ["weights.hdf5"]


def test_the_catalogue_is_whole() -> None:
    """A slip in a name, an address or a hash would only be met by the person who downloads."""
    names = [name.lower() for m in CATALOGUE for name in (m.name, *m.aliases)]
    assert len(names) == len(set(names))
    for model in CATALOGUE:
        assert model.is_bundled or [f.name for f in model.files] == ["options.json", "weights.hdf5"]
        for file in model.files:
            suffix = file.name.partition(".")[2]
            assert all(a.startswith("https://") and a.endswith(suffix) for a in file.addresses)
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
    assert find("original").files[1].addresses[0] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
        "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert find("5.5B").files[0].addresses[1] == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json"
    )


def test_the_sizes_of_the_catalogue_agree() -> None:
    """Four bytes for each parameter, and a little for the file around them."""
    for model in CATALOGUE:
        for file in model.files[1:]:
            if model.n_parameters and file.expected_bytes:
                assert 0 <= file.expected_bytes - 4 * model.n_parameters < 40_000


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(ModelError) as caught:
        find("orginal")
    assert caught.value.message == "no model named `orginal`"
    assert caught.value.hint == "did you mean `original`? `elmo models list` shows all names"
    with pytest.raises(ModelError) as caught:
        find("zzz")
    assert caught.value.hint.startswith("`elmo models list` shows all names")
