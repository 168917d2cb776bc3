"""Golden vectors: rows that show every wrong bit, written so that any bench can read them."""

from approxnorm.vectors.generate import Plan, VectorClass, generate, plan
from approxnorm.vectors.manifest import Manifest
from approxnorm.vectors.read import VectorSet, read_vectors
from approxnorm.vectors.write import write_vectors

__all__ = [
    "Manifest",
    "Plan",
    "VectorClass",
    "VectorSet",
    "generate",
    "plan",
    "read_vectors",
    "write_vectors",
]
