"""The two addends of x for the bench of a kernel that adds a residual first."""

from __future__ import annotations

import json
from pathlib import Path

from approxnorm.model import RMSNorm
from approxnorm.residual import split
from approxnorm.vectors import VectorSet
from approxnorm.vectors.text import sha256_of, to_hex

FOLDER = "residual"
FORMAT, FORMAT_VERSION = "approxnorm-residual", 1


def write_residual(folder: Path, model: RMSNorm, vectors: VectorSet, seed: int) -> None:
    """Write a.hex, b.hex and manifest.json into an empty folder, as the bench reads them.

    Their sum in the kernel is the set's x, word for word; the manifest names that x by its SHA-256.
    """
    x = vectors.signal("x")
    manifest: dict[str, object] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "digest": vectors.digest,
        "x_sha256": x.sha256,
    }
    addends = split(model, vectors.array("x"), seed)
    for name, codes in zip("ab", addends, strict=True):
        path = folder / f"{name}.hex"
        path.write_bytes(to_hex(codes, x.width))
        manifest[name] = {"file": path.name, "sha256": sha256_of(path)}
    text = json.dumps(manifest, indent=1) + "\n"
    (folder / "manifest.json").write_bytes(text.encode("ascii"))
