"""Describe the installation: versions, processor, models and settings, for `elmo info`.

The description names neither the user nor the machine: the home folder is `~`, and a folder that is
named after the user or the machine is `USER` or `HOST`.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ElmoError
from elmo_cli.messages import url_without_secrets
from elmo_cli.pretrained.catalogue import CATALOGUE, elmo_home, installed_dir
from elmo_cli.pretrained.hub import pulled_models
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.processor import Processor, first_line_of
from elmo_cli.version import __version__

_PACKAGE = Path(__file__).resolve().parent
_DISTRIBUTION = "elmo-cli"
REQUIRED = ("numpy", "h5py", "click", "rich", "nltk", "orjson")  # PyTorch has facts of its own
OPTIONAL = ("matplotlib", "bokeh", "scikit-learn", "pyarrow", "ray", "spacy", "scipy", "isal")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # the first that is set decides
_VARIABLE_PREFIXES = ("ELMO_", "OMP_", "MKL_", "CUDA_VISIBLE_DEVICES")
_DRIVER_FILE = Path("/proc/driver/nvidia/version")


def describe_installation(source: ModelSource) -> dict[str, Any]:
    """Describe what may matter for a bug report, with the fields of docs/reference/json.md.

    No error is raised: an unknown fact is None, and a model or a PyTorch that cannot be loaded has
    the field `problem`.

    Args:
        source: the model to describe.
    """
    return {
        "elmo": _describe_package(),
        "python": {"version": platform.python_version(), "prefix": _anonymous(sys.prefix)},
        "system": _describe_system(),
        "processor": _describe_processor(),
        "torch": _describe_torch(),
        "packages": {name: _version_of(name) for name in REQUIRED},
        "optional": {name: _version_of(name) for name in OPTIONAL},
        "hdf5": _hdf5_version(),
        "model": _describe_model(source),
        "home": _describe_home(),
        "variables": _set_variables(os.environ),
    }


def _describe_package() -> dict[str, Any]:
    return {
        "version": __version__,
        "source": _source_of_package(),
        "folder": _anonymous(_PACKAGE),
    }


def _source_of_package() -> str:
    """Where the package is from: "commit HASH", "clone", "wheel" or "folder"."""
    root = _PACKAGE.parent
    if (root / ".git").exists():
        commit = first_line_of(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"])
        return f"commit {commit}" if commit else "clone"
    record: dict[str, Any] = {}
    with suppress(metadata.PackageNotFoundError, ValueError):
        record = json.loads(metadata.distribution(_DISTRIBUTION).read_text("direct_url.json") or "")
    if "vcs_info" in record:
        return f"commit {record['vcs_info'].get('commit_id', 'unknown')[:12]}"
    return "folder" if "dir_info" in record else "wheel"


def _describe_system() -> dict[str, Any]:
    name = ""
    with suppress(OSError):
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    if platform.system() == "Darwin":
        name = f"macOS {platform.mac_ver()[0]}"
    libc = " ".join(platform.libc_ver()).strip()
    return {
        "name": name or None,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "libc": libc or None,
    }


def _describe_processor() -> dict[str, Any]:
    processor = Processor.of_this_machine()
    return {
        "name": processor.name,
        "usable_cpus": processor.n_usable_cpus,
        "cpus": processor.n_cpus,
        "features": list(processor.features),
    }


def _describe_torch() -> dict[str, Any]:
    """PyTorch, and how it computes here; with `problem` if it cannot be imported."""
    try:
        import torch

        from elmo_cli.engine.runtime import has_fast_bf16, select_device
    except (ImportError, OSError) as error:  # OSError: a shared library is missing
        return {"version": _version_of("torch"), "problem": str(error).partition("\n")[0]}
    device = select_device("auto")
    return {
        "version": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda,
        "mps": torch.backends.mps.is_available(),
        "threads": torch.get_num_threads(),
        "threads_set_by": _thread_variable(os.environ),
        "gpus": _describe_gpus(),
        "driver": _driver_version(),
        "device": str(device),
        "precision": EmbedderSettings().precision,
        "fast_bf16": has_fast_bf16(device),
    }


def _describe_gpus() -> list[dict[str, Any]]:
    import torch

    gpus = []
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for number in range(n_gpus):
        properties = torch.cuda.get_device_properties(number)
        gpus.append({"name": properties.name, "bytes": properties.total_memory})
    return gpus


def _driver_version() -> str | None:
    """The version of the NVIDIA driver; None without one."""
    with suppress(OSError):
        line = _DRIVER_FILE.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        version = re.search(r"\d+(\.\d+)+", line)
        return version[0] if version else None
    return None


def _thread_variable(environment: Mapping[str, str]) -> str | None:
    """The variable that sets the number of threads; None for PyTorch's own choice."""
    return next((name for name in _THREAD_VARIABLES if environment.get(name)), None)


def _version_of(distribution: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(distribution)
    return None


def _hdf5_version() -> str | None:
    with suppress(ImportError, OSError):
        import h5py

        return str(h5py.version.hdf5_version)
    return None


def _describe_model(source: ModelSource) -> dict[str, Any]:
    """The model that commands use: its name, its origin and its hash, or `problem`."""
    try:
        files = locate(source)
        sha256 = files.sha256
    except ElmoError as error:
        return {"problem": _anonymous(f"{error.where}: {error.problem}".removeprefix(": "))}
    return {
        "name": _anonymous(files.name),
        "origin": files.origin,
        "folder": _anonymous(files.weights.parent),
        "sha256": sha256,
    }


def _describe_home() -> dict[str, Any]:
    """The folder of downloaded models, its size and its models."""
    try:
        home = elmo_home()
    except ElmoError as error:
        return {"problem": error.problem}
    n_bytes = 0
    names = []
    with suppress(OSError):  # what cannot be read is not counted
        for model in CATALOGUE:
            if model.files and installed_dir(model) is not None:
                names.append(model.name)
        names += map(str, pulled_models())
        for path in home.rglob("*"):
            if path.is_file():
                n_bytes += path.stat().st_size
    return {"folder": _anonymous(home), "bytes": n_bytes, "models": names}


def _set_variables(environment: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    for name in sorted(environment):
        if name.startswith(_VARIABLE_PREFIXES):
            variables[name] = _anonymous(environment[name])
    return variables


def _anonymous(text: str | Path) -> str:
    """A text with paths and URLs, without passwords and the names of the user and the machine."""
    shown = url_without_secrets(str(text))
    with suppress(RuntimeError):  # no home folder is known
        home = re.escape(str(Path.home()))
        shown = re.sub(rf"(?<![\w.-]){home}(?=/|$)", "~", shown)  # not the end of another folder
    names = {platform.node(): "HOST"}
    with suppress(OSError, KeyError):
        names[getpass.getuser()] = "USER"
    for name, word in names.items():
        if name:
            shown = re.sub(rf"(?<=/){re.escape(name)}(?=/|$)", word, shown)
    return shown
