"""Xilinx's ap_int and ap_fixed headers, copied so that a project compiles with g++ alone."""

from __future__ import annotations

from pathlib import Path

FOLDER = "csim/ap_types"
# Each of these carries its Apache-2.0 notice. hls_stream.h, hls_math.h and utils/ do not belong
# here: the project has its own stream for g++, and the kernel uses no floating point.
HEADERS = (
    "ap_common.h",
    "ap_decl.h",
    "ap_fixed.h",
    "ap_fixed_base.h",
    "ap_fixed_ref.h",
    "ap_fixed_special.h",
    "ap_int.h",
    "ap_int_base.h",
    "ap_int_ref.h",
    "ap_int_special.h",
    "etc/ap_private.h",
)
_NOTICE = b"Licensed under the Apache License, Version 2.0"


def ap_type_files(source: Path) -> dict[str, bytes]:
    """The headers below ``source``, by path in the project; {} unless all are there and free.

    A release whose headers lack the Apache notice is left alone: it may not be copied.
    """
    files = {}
    for name in HEADERS:
        path = source / name
        if not path.is_file():
            return {}
        data = path.read_bytes()
        if _NOTICE not in data:
            return {}
        files[f"{FOLDER}/{name}"] = data
    return files
