"""The HLS C++ kernel, its test bench and what runs them; imported as `approxnorm.hls_ref`."""

if __name__ != "approxnorm.hls_ref":
    raise ImportError(
        "this folder is imported as approxnorm.hls_ref, not as "
        f"{__name__}: install the package (pip install -e .) and import approxnorm.hls_ref"
    )
