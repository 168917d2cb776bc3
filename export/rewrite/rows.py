"""The rows that go into each norm: taken out of a running model, kept in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Norm
from approxnorm.export.rewrite.feeds import Feeds
from approxnorm.export.rewrite.graph import names_in, sum_nodes, with_nodes
from approxnorm.export.rewrite.session import Session, tapped
from approxnorm.inputs import Layer
from approxnorm.inputs.stored import Stored, file_blocks

DTYPE = np.dtype("<f4")

# A fraction of a job that is done.
Report = Callable[[float], None]


@dataclass(frozen=True)
class NormRows:
    """All rows (rows, dim) of a norm's x, float32 little-endian in a file; all are finite."""

    norm: Norm
    file: Path
    rows: int

    def layer(self, source: Path) -> Layer:
        """The same as a layer of an activation file; source: what errors name."""
        shape = (self.rows, self.norm.dim)
        where = f"{source}: {self.norm.name}"
        stored = Stored(where, shape, DTYPE, file_blocks(self.file, where, 0, DTYPE, shape))
        norm = self.norm
        return Layer(norm.name, norm.dim, self.rows, norm.gamma, norm.eps, False, source, stored)

    def mapped(self) -> np.ndarray:
        """The rows, mapped and not read."""
        return np.memmap(self.file, DTYPE, "r", shape=(self.rows, self.norm.dim))


def collect_rows(
    model: onnx.ModelProto,
    path: Path,
    norms: Sequence[Norm],
    feeds: Feeds,
    folder: Path,
    report: Report,
) -> list[NormRows]:
    """Run the model on all feeds and write the rows of each norm to a file in the folder.

    path: where the model was read from. Raises ApproxNormError if ONNX Runtime fails, a norm gets
    numbers that are not finite, or no rows at all.
    """
    session = Session(tapped(with_sums(model, norms), [n.x for n in norms]), path)
    files = [folder / f"{i}.f32" for i in range(len(norms))]
    counts = [0] * len(norms)
    for run, feed in enumerate(feeds):
        for i, (x,) in session.run_groups(feed, [[n.x] for n in norms]):
            rows = rows_of(x, norms[i], f"run {run} of {feeds.path}")
            counts[i] += len(rows)
            with open(files[i], "ab") as out:
                out.write(rows.astype(DTYPE).tobytes())
            report((run + (i + 1) / len(norms)) / feeds.runs)
    for norm, count in zip(norms, counts, strict=True):
        if not count:
            raise ApproxNormError(
                f"{feeds.path} gives the norm {norm.name} no rows; give inputs that are not empty"
            )
    return [NormRows(*each) for each in zip(norms, files, counts, strict=True)]


def rows_of(x: np.ndarray, norm: Norm, where: str) -> np.ndarray:
    """A norm's x as rows (n, dim); ApproxNormError if a number is not finite."""
    rows = x.reshape(-1, norm.dim)
    finite = np.isfinite(rows)
    if not finite.all():
        row, channel = divmod(int(finite.argmin()), norm.dim)
        raise ApproxNormError(
            f"the norm {norm.name} gets {rows[row, channel]} in {where} (row {row}, channel"
            f" {channel}); allowed: finite numbers"
        )
    return rows


def with_sums(model: onnx.ModelProto, norms: Sequence[Norm]) -> onnx.ModelProto:
    """The model itself, or a copy that also writes the sums that norms keep to themselves."""
    names = names_in(model)
    hidden = {n.place: sum_nodes(n, f"{n.x}/") for n in norms if n.x not in names}
    if not hidden:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    with_nodes(copy, hidden)
    return copy
