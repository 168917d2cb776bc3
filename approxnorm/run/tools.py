"""What the main job can do on this machine, and what it does if nothing is said."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.csim import require_tools

BACKENDS = ("numpy", "cpp", "onnx")  # that a run compares with the model
EXTRA = "pip install 'approxnorm[onnx]'"


@dataclass(frozen=True)
class Choice:
    """What a run writes and compares, and for what was left out by itself, one line each."""

    hls: bool
    onnx: bool
    backends: tuple[str, ...]
    left_out: tuple[str, ...]


def choose(hls: bool | None, onnx: bool | None, check: bool | None) -> Choice:
    """What was asked for; where nothing was (None), what can be done here.

    check: all backends, the one of ONNX only if its files are not declined.
    """
    no_csim, no_onnx, no_runtime = missing_csim(), missing_onnx(), missing_runtime()
    write_onnx = _or(onnx, check is True or no_onnx is None)
    compared = {
        "numpy": _or(check, True),
        "cpp": _or(check, no_csim is None),
        "onnx": write_onnx and _or(check, no_runtime is None),
    }
    files, checked = {"ONNX files (--onnx)": onnx}, {"the check of onnx (--check)": check}
    told = [
        _left_out({"HLS projects (--hls)": hls, "the check of cpp (--check)": check}, no_csim),
        _left_out(files | checked, no_onnx if onnx is None and not write_onnx else None),
        _left_out(checked, no_runtime if write_onnx else None),
    ]
    return Choice(
        hls=_or(hls, no_csim is None),
        onnx=write_onnx,
        backends=tuple(name for name in BACKENDS if compared[name]),
        left_out=tuple(line for line in told if line),
    )


def require(*, onnx: bool, backends: tuple[str, ...]) -> None:
    """Raise ApproxNormError, with the remedy, if one of these cannot be had on this machine."""
    if "cpp" in backends:
        require_tools()
    if "onnx" in backends and not onnx:
        raise ApproxNormError(
            "the backend onnx of a run compares the ONNX files that the run writes; write them"
            " too, or leave the backend out"
        )
    missing = (missing_onnx() if onnx else None) or (
        missing_runtime() if "onnx" in backends else None
    )
    if missing is not None:
        raise ApproxNormError(f"{missing}, or leave ONNX out (--no-onnx)")


def missing_csim() -> str | None:
    """What C simulation lacks and how to get it; None if it can run."""
    try:
        require_tools()
    except ApproxNormError as error:
        return str(error)
    return None


def missing_onnx() -> str | None:
    """The same of the package that writes ONNX files."""
    return _missing("onnx", "ONNX files need")


def missing_runtime() -> str | None:
    """The same of ONNX Runtime."""
    return _missing("onnxruntime", "ONNX Runtime needs")


def _missing(module: str, who: str) -> str | None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        return f"{who} the package {module}, which cannot be imported ({error}): {EXTRA}"
    return None


def _or(asked: bool | None, default: bool) -> bool:
    return default if asked is None else asked


def _left_out(asked: dict[str, bool | None], missing: str | None) -> str:
    """What was not asked for either way, hence not done where something is missing, and why."""
    parts = [what for what, flag in asked.items() if flag is None]
    return f"{' and '.join(parts)}; {missing}" if missing is not None and parts else ""
