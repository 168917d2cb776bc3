"""From a datapath to C++ for high-level synthesis; it knows operations and no methods."""

from approxnorm.hls_ref.emit.kernel import TOP, emit_kernel
from approxnorm.hls_ref.emit.schedule import Pass, passes_of

__all__ = ["TOP", "Pass", "emit_kernel", "passes_of"]
