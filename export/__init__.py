"""Writers of other tools' formats (ONNX, QONNX); imported as `approxnorm.export`."""

if __name__ != "approxnorm.export":
    raise ImportError(
        "this folder is imported as approxnorm.export, not as "
        f"{__name__}: install the package (pip install -e .) and import approxnorm.export"
    )
