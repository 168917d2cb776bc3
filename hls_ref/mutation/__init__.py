"""How good golden vectors are: the kernel with one mistake after another, run against them."""

from approxnorm.hls_ref.mutation.report import MutationReport
from approxnorm.hls_ref.mutation.run import mutate

__all__ = ["MutationReport", "mutate"]
