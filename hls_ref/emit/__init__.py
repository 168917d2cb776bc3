"""From a datapath to C++ for high-level synthesis; it knows operations and no methods."""

from approxnorm.hls_ref.emit.build import emit_kernel, emit_ports_kernel, kernel_files, ports_kernel
from approxnorm.hls_ref.emit.kernel import TOP, Kernel
from approxnorm.hls_ref.emit.schedule import Pass, passes_of

__all__ = [
    "TOP",
    "Kernel",
    "Pass",
    "emit_kernel",
    "emit_ports_kernel",
    "kernel_files",
    "passes_of",
    "ports_kernel",
]
