"""Model files: read with nothing trusted, written with everything that belongs to them."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import onnx

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms.wiring import opset_of
from approxnorm.export.onnx.names import MIN_OPSET
from approxnorm.export.rewrite.external import check_external, locations
from approxnorm.inputs.layers import require_file
from approxnorm.output import write_atomically

SUFFIX = ".onnx"
MAX_BYTES = (1 << 31) - 1  # of a protobuf message
_CHUNK = 1 << 20


def load_model(path: str | Path) -> onnx.ModelProto:
    """The model of a .onnx file, with external data checked but not read.

    Raises ApproxNormError, which names the file, if that is missing, damaged or too large, its IR
    version or opset is unknown or too old, or external data are outside its folder or incomplete.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        raise ApproxNormError(f"{path} has the suffix {path.suffix!r}; it must be a .onnx file")
    require_file(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ApproxNormError(
            f"{path} has {size} bytes; allowed: {MAX_BYTES}, so save the model with external data"
            " (onnx.save_model with save_as_external_data=True)"
        )
    model = _parse(path)
    _check_text(model, path)
    _check_versions(model, path)
    _check_order(model, path)
    check_external(model, path)
    return model


def _parse(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except OSError as error:
        raise ApproxNormError(f"{path} cannot be read: {error.strerror}") from error
    except Exception:  # protobuf's own class, or what its parser trips over
        raise ApproxNormError(
            f"{path} is damaged or no ONNX model; copy or export it again"
        ) from None
    if not model.ir_version or not model.HasField("graph"):
        raise ApproxNormError(f"{path} holds no ONNX model; copy or export it again")
    return model


def _check_versions(model: onnx.ModelProto, path: Path) -> None:
    newest_ir, newest = int(onnx.IR_VERSION), onnx.defs.onnx_opset_version()
    if model.ir_version > newest_ir:
        raise ApproxNormError(
            f"{path} has IR version {model.ir_version}; the installed onnx knows up to {newest_ir},"
            " so install a newer one"
        )
    opset = opset_of(model)
    if opset is None:
        raise ApproxNormError(
            f"{path} names no opset of the default domain; allowed: {MIN_OPSET} to {newest}, so"
            " export the model again"
        )
    if opset < MIN_OPSET:
        raise ApproxNormError(
            f"{path} has opset {opset}; allowed: {MIN_OPSET} to {newest}, so convert it"
            " (onnx.version_converter.convert_version) or export it again"
        )
    if opset > newest:
        raise ApproxNormError(
            f"{path} has opset {opset}, which the installed onnx does not know; allowed:"
            f" {MIN_OPSET} to {newest}, so install a newer onnx or convert the model"
            " (onnx.version_converter.convert_version)"
        )


def _check_text(message: Any, path: Path) -> None:
    """Refuse names that are no text: protobuf lets them pass, what reads them later does not."""
    for field, value in message.ListFields():
        is_single = isinstance(value, str | bytes | int | float) or hasattr(value, "ListFields")
        several = [value] if is_single else value
        if field.type == field.TYPE_MESSAGE:
            for inner in several:
                _check_text(inner, path)
        elif field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in several):
            raise ApproxNormError(
                f"{path} is damaged: it has a name that is not UTF-8; copy or export it again"
            )


def _check_order(model: onnx.ModelProto, path: Path) -> None:
    """Refuse a graph whose nodes read what is not there before them, or write what is."""
    graph = model.graph
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        written = [name for name in node.output if name]
        missing = [name for name in node.input if name and name not in known]
        if missing:
            raise ApproxNormError(
                f"{path} has a node {node.name or node.op_type!r} that reads {missing[0]!r}, which"
                " nothing before it writes; the graph's nodes must be in order, so export it again"
            )
        twice = [name for name in written if name in known]
        if twice:
            raise ApproxNormError(
                f"{path} has two values of the name {twice[0]!r}; export the model again"
            )
        known.update(written)


def check_targets(model: onnx.ModelProto, path: Path, out: Path) -> None:
    """Refuse an output file whose folder cannot take the model's external data.

    path: the file that model was read from. Raises ApproxNormError.
    """
    for location in locations(model, path):
        _target(path, out, location)


def save_model(model: onnx.ModelProto, path: Path, out: Path) -> list[Path]:
    """Write a model made from the one at ``path``; returns the files of external data copied.

    External data stay in their files: those are copied byte for byte where ``out`` is in another
    folder and they are not there yet. On an error nothing new is left. Raises ApproxNormError if
    a file of another content would be lost, the model is too large, or the system refuses.
    """
    data = serialized(model, out)
    wanted = {location: _target(path, out, location) for location in locations(model, path)}
    missing = {path.parent / name: target for name, target in wanted.items() if target is not None}
    with _undone_on_failure() as made:
        for source, target in missing.items():
            _make_folders(target.parent, made)
            write_atomically(target, partial(_copy, source))
            made.append(target)
        write_atomically(out, lambda file: _write(file, data))
    return list(missing.values())


def serialized(model: onnx.ModelProto, what: Path) -> bytes:
    """A model as bytes; ApproxNormError if it is too large for protobuf."""
    with suppress(Exception):  # protobuf's own class, of a message that is too large
        data = model.SerializeToString(deterministic=True)
        if len(data) <= MAX_BYTES:
            return data
    raise ApproxNormError(
        f"{what} would have more than {MAX_BYTES} bytes; save the model with external data first"
        " (onnx.save_model with save_as_external_data=True)"
    )


def _target(path: Path, out: Path, location: str) -> Path | None:
    """Where a file of external data has to be copied; None if it is there."""
    source, target = path.parent / location, out.parent / location
    if os.path.realpath(target) == os.path.realpath(out):
        raise ApproxNormError(
            f"--out is {str(out)!r}, the name of the model's external data; give another file"
        )
    inside = os.path.join(os.path.realpath(out.parent), "")
    if not os.path.realpath(target).startswith(inside):
        raise ApproxNormError(
            f"{target} is a link that leaves the folder; external data are copied there, so give"
            " --out in another folder"
        )
    if not os.path.lexists(target):
        return target
    same = target.is_file() and (
        os.path.samefile(source, target) or filecmp.cmp(source, target, shallow=False)
    )
    if not same:
        raise ApproxNormError(
            f"{target} is there already and differs from the model's external data {source}; give"
            " --out in another folder"
        )
    return None


def _copy(source: Path, out: IO[bytes]) -> None:
    with open(source, "rb") as stream:
        shutil.copyfileobj(stream, out, _CHUNK)


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _make_folders(folder: Path, made: list[Path]) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent, made)
        folder.mkdir()
        made.append(folder)


@contextmanager
def _undone_on_failure() -> Iterator[list[Path]]:
    """A list of files and folders made so far, which go if the block fails."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise
