"""RMSNorms in ONNX graphs, whoever wrote them; imported as `approxnorm.export.norms`.

`find_norms(model, read)` takes an `onnx.ModelProto`, which it never changes, and gives `Findings`.
`read` gives the contents of initializers whose external data is not loaded.
"""

from approxnorm.export.norms.finder import find_norms
from approxnorm.export.norms.found import Findings, Kind, Norm, ReadTensor, Unrecognised

__all__ = ["Findings", "Kind", "Norm", "ReadTensor", "Unrecognised", "find_norms"]
