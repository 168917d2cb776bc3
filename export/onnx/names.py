"""What our node is called. Nothing here needs onnx."""

# QONNX imports a node's domain as a Python module and looks for the op's class there.
DOMAIN = "approxnorm.export.ops"
DOMAIN_VERSION = 1
OP_TYPE = "ApproxRMSNorm"

MIN_OPSET = 13  # the first whose QuantizeLinear and ReduceSum take their arguments as they do today
DEFAULT_OPSET = 21  # the first with 16-bit QuantizeLinear; onnx 1.17 knows up to 22
DEFAULT_IR = 10  # the newest that onnx 1.17 loads
MIN_IR = 8  # the first with model-local functions
