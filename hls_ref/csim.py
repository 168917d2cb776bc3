"""C simulation: the kernel compiled with g++ and Xilinx's ap_int and ap_fixed headers, and run."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit import emit_kernel
from approxnorm.model import RMSNorm

HERE = Path(__file__).resolve().parent
STREAM_INCLUDE = HERE / "csim_include"
STANDARD = "-std=c++14"
AP_TYPES_VARIABLE = "AP_TYPES"  # a folder with ap_int.h, as in the exported Makefile


def find_compiler() -> list[str]:
    """The C++ compiler and arguments: the words of $CXX as a shell has them, else g++.

    ApproxNormError if there is none.
    """
    text = os.environ.get("CXX", "")
    try:
        wanted, *arguments = shlex.split(text) or ["g++"]
    except ValueError as error:
        raise ApproxNormError(
            f"CXX is {text!r}, where a quote is not closed; allowed: a compiler and its arguments"
        ) from error
    found = shutil.which(wanted)
    if found is None:
        raise ApproxNormError(
            f"no C++ compiler: {wanted} is not on the path; install g++ (on Debian: apt-get"
            " install g++), or set CXX"
        )
    return [found, *arguments]


def find_ap_types() -> Path:
    """The folder of ap_int.h and ap_fixed.h: $AP_TYPES, a Vitis on the machine, or hls4ml's copy.

    Raises ApproxNormError if there is none, and as ``check_ap_types_variable`` does.
    """
    check_ap_types_variable()
    candidates = [Path(os.environ[v]) / sub for v, sub in _PLACES if os.environ.get(v)]
    spec = importlib.util.find_spec("hls4ml")
    if spec is not None and spec.origin:
        candidates.append(Path(spec.origin).parent / "templates" / "vivado" / "ap_types")
    for folder in candidates:
        if not _missing_headers(folder):
            return folder
    raise ApproxNormError(
        f"no ap_int.h and ap_fixed.h: set {AP_TYPES_VARIABLE} to the folder that holds them (the"
        " include folder of Vitis HLS, or Xilinx' HLS_arbitrary_Precision_Types from GitHub), or"
        " pip install --no-deps hls4ml"
    )


def check_ap_types_variable() -> None:
    """Refuse an AP_TYPES that is set and holds no headers: others would be used unnoticed."""
    value = os.environ.get(AP_TYPES_VARIABLE)
    missing = _missing_headers(Path(value)) if value else []
    if missing:
        raise ApproxNormError(
            f"{AP_TYPES_VARIABLE} is {value!r}, where there is no {missing[0]}; set it to the"
            " folder that holds ap_int.h and ap_fixed.h, or unset it"
        )


def _missing_headers(folder: Path) -> list[str]:
    return [name for name in ("ap_int.h", "ap_fixed.h") if not (folder / name).is_file()]


def require_tools() -> None:
    """Raise ApproxNormError, with the remedy, if C simulation cannot run on this machine."""
    find_compiler()
    find_ap_types()


_PLACES = (
    (AP_TYPES_VARIABLE, ""),
    ("XILINX_HLS", "include"),
    ("XILINX_VITIS", "include"),
    ("XILINX_VIVADO", "include"),
)


def write_sources(folder: Path, sources: Mapping[str, str]) -> None:
    """Source files by their paths in a folder."""
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def compile_program(
    out: Path, sources: Sequence[Path], includes: Sequence[Path], flags: Sequence[str] = ("-O2",)
) -> None:
    """Compile and link; ApproxNormError with the compiler's first complaint."""
    command = [*find_compiler(), STANDARD, *flags]
    for folder in includes:
        command += ["-I", str(folder)]
    for folder in (STREAM_INCLUDE, find_ap_types()):
        command += ["-isystem", str(folder)]
    done = subprocess.run(
        [*command, *map(str, sources), "-o", str(out)], capture_output=True, text=True
    )
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if "error" in line]
        first = (complaints or done.stderr.splitlines() or [f"status {done.returncode}"])[0]
        raise ApproxNormError(f"{command[0]} refuses the kernel: {first}")


class CppBackend:
    """The kernel of a model as a program: every output code, and every named signal.

    lanes: elements a beat. Raises ApproxNormError if there is no compiler, or no ap_int.h.
    """

    def __init__(self, model: RMSNorm, lanes: int = 8) -> None:
        self.model = model
        self._root = Path(tempfile.mkdtemp(prefix="approxnorm-"))
        weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        self._sources = emit_kernel(model, lanes)
        write_sources(self._root, self._sources)
        self._programs: dict[bool, Path] = {}
        self._program(trace=False)

    def run(self, codes: np.ndarray) -> np.ndarray:
        """Output codes (rows, dim) of input codes (rows, dim)."""
        y, _ = self._run(codes, trace=False)
        return y

    def trace(self, codes: np.ndarray) -> Arrays:
        """Every named element signal (rows, dim) and row signal (rows,)."""
        _, values = self._run(codes, trace=True)
        traced, at, rows = {}, 0, len(codes)
        for port in self.model.assembly.require_datapath().signals():
            if port.level == "channel":
                continue
            shape = (rows, self.model.dim) if port.level == "element" else (rows,)
            size = int(np.prod(shape))
            part = values[at : at + size].reshape(shape)
            traced[port.name], at = part.astype(storage_dtype(port.interval)), at + size
        return traced

    def _run(self, codes: np.ndarray, *, trace: bool) -> tuple[np.ndarray, np.ndarray]:
        rows = self.model.check_rows(codes)
        program = self._program(trace=trace)
        x, y, signals = (self._root / name for name in ("x.bin", "y.bin", "trace.bin"))
        rows.astype(np.int64).tofile(x)
        command = [str(program), str(len(rows)), str(x), str(y)]
        done = subprocess.run(
            command + ([str(signals)] if trace else []), capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip() or f"status {done.returncode}"
            raise ApproxNormError(f"the kernel's C simulation failed: {said}")
        values = np.fromfile(signals, np.int64) if trace else np.zeros(0, np.int64)
        dtype = storage_dtype(self.model.assembly.require_datapath().ports["y"].interval)
        return np.fromfile(y, np.int64).reshape(rows.shape).astype(dtype), values

    def _program(self, *, trace: bool) -> Path:
        """The compiled program, with or without the trace; compiled when first asked for."""
        if trace not in self._programs:
            out = self._root / ("traced" if trace else "plain")
            sources = [self._root / n for n in self._sources if n.endswith(".cpp")]
            flags = ["-O2", *(["-DAPPROX_TRACE"] if trace else [])]
            compile_program(
                out,
                [*sources, HERE / "include" / "runner.cpp"],
                [self._root / "kernel", self._root / "tb"],
                flags,
            )
            self._programs[trace] = out
        return self._programs[trace]
