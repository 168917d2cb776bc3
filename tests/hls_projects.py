"""What the tests of HLS projects share: a small model, and looking at and making a project."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from norm_specs import BASE, VARIANTS

from approxnorm import RMSNorm, RMSNormSpec


def model_of(variant: str = "linear", **fields: Any) -> RMSNorm:
    """A variant of the small spec, with some fields changed and a gamma that differs by channel."""
    spec = RMSNormSpec(**{**BASE, **VARIANTS[variant], **fields})
    gamma = (np.arange(spec.dim or 0) % 7 + 2) / 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RMSNorm(spec, gamma)


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path, provenance (versions) aside."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != "provenance.json"
    }


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make` there."""
    command = ["make", "--no-print-directory", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True)
