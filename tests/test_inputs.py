"""Activation files: every format and layout gives the same rows; every kind of damage is named."""

import hashlib
import io
import json
import os
import random
import stat
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from approxnorm.errors import ApproxNormError
from approxnorm.inputs import (
    Layer,
    default_activations,
    load_array,
    open_activations,
    save_array,
)

X = np.random.default_rng(1).standard_normal((5, 3, 6)).astype(np.float32)
ROWS = X.reshape(15, 6)
GAMMA = np.linspace(-1, 1, 6, dtype=np.float32)
EPS = np.float32(1e-5)
FLOATS = ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
INTEGERS = [order + code for order in "<>" for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4")]


def read(layer: Layer, max_elements: int = 1 << 20) -> np.ndarray:
    blocks = list(layer.blocks(max_elements))
    return np.concatenate(blocks) if blocks else np.empty((0, layer.dim))


def read_file(path: Path) -> list[np.ndarray]:
    return [read(layer) for layer in open_activations(path)]


def npz(path: Path, compressed: bool = False, **arrays: Any) -> Path:
    """Write an .npz whose keys are given with '_' for '.' (keyword arguments have no dots)."""
    save = np.savez_compressed if compressed else np.savez
    save(path, **{key.replace("_", "."): value for key, value in arrays.items()})
    return path


def npy_bytes(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def raw_npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + data


def raw_safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> Path:
    header: dict[str, Any] = {"__metadata__": {"made": "by hand"}}
    data = b""
    for key, (dtype, shape, values) in tensors.items():
        span = [len(data), len(data) + len(values)]
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": span}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


# --- what is read ---------------------------------------------------------------------------------


def test_the_shipped_file_equals_what_numpy_loads() -> None:
    path = default_activations()
    layers = open_activations(path)
    with np.load(path) as expected:
        names = [key.removesuffix(".x") for key in expected if key.endswith(".x")]
        assert [layer.name for layer in layers] == names
        assert names[0] == "layers_0_input_layernorm" and names[-1] == "norm" and len(names) == 8
        for layer in layers:
            assert (layer.dim, layer.rows, layer.is_codes) == (576, 64, False)
            assert layer.source == path
            assert np.array_equal(read(layer, 1000), expected[layer.name + ".x"])
            assert layer.gamma is not None and layer.gamma.dtype == np.float32
            assert np.array_equal(layer.gamma, expected[layer.name + ".gamma"])
            assert layer.eps == 1e-5


def test_the_shipped_file_is_the_one_its_readme_describes() -> None:
    path = default_activations()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest in (path.parent / "README.md").read_text()
    loud = {layer.name: np.abs(read(layer)) for layer in open_activations(path)}
    layer_20 = loud["layers_20_post_attention_layernorm"]
    assert layer_20.argmax() // 576 == 0 and 26_955 <= layer_20.max() < 26_956


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("kind", ["npy", "stored", "deflated"])
def test_every_dtype_and_order_gives_the_rows(
    tmp_path: Path, kind: str, dtype: str, order: str
) -> None:
    array = np.asarray(X * 30, order=order).astype(dtype, order="K")  # type: ignore[call-overload]
    if dtype[1] == "u":
        array = np.abs(array)
    if kind == "npy":
        path = tmp_path / "a.npy"
        np.save(path, array)
    else:
        path = npz(tmp_path / "a.npz", kind == "deflated", a_x=array)
    (layer,) = open_activations(path)
    is_codes = dtype[1] in "iu"
    assert (layer.name, layer.dim, layer.rows, layer.is_codes) == ("a", 6, 15, is_codes)
    want = array.reshape(15, 6).astype(np.int64 if is_codes else np.float32)
    for max_elements in (1, 6, 13, 24, 1 << 20):
        blocks = list(layer.blocks(max_elements))
        rows = max(1, max_elements // 6)
        assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
        assert all(b.dtype == want.dtype and b.flags.c_contiguous for b in blocks)
        assert all(b.flags.writeable and type(b) is np.ndarray for b in blocks)
        assert np.array_equal(np.concatenate(blocks), want)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_header_versions(tmp_path: Path, version: tuple[int, int]) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy_bytes(X, version))
    assert np.array_equal(read_file(path)[0], ROWS)


def test_one_axis_is_one_row(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X[0, 0])
    (layer,) = open_activations(str(tmp_path / "v.npy"))
    assert (layer.name, layer.rows, layer.dim, layer.gamma, layer.eps) == ("v", 1, 6, None, None)
    assert np.array_equal(read(layer), X[0, :1])


@pytest.mark.parametrize("shape", [(0, 6), (0, 3, 6), (2, 0, 6)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_empty_batch_has_no_blocks(tmp_path: Path, shape: tuple[int, ...], order: Any) -> None:
    empty = np.empty(shape, np.float32, order=order)
    np.save(tmp_path / "e.npy", empty)
    npz(tmp_path / "e.npz", e_x=empty, e_gamma=GAMMA)
    save_file({"e.x": empty}, tmp_path / "e.safetensors")
    for suffix in ("npy", "npz", "safetensors"):
        (layer,) = open_activations(tmp_path / f"e.{suffix}")
        assert (layer.rows, layer.dim) == (0, 6)
        assert list(layer.blocks()) == []


def test_names_have_dots_and_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "many.npz"
    arrays = {"m.9.norm.gamma": GAMMA, "m.0.norm.x": X, "m.9.norm.x": 2 * X, "x.x": 3 * X}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    layers = open_activations(path)
    assert [layer.name for layer in layers] == ["m.9.norm", "m.0.norm", "x"]
    for layer, factor in zip(layers, (2, 1, 3), strict=True):
        assert np.array_equal(read(layer), factor * ROWS)
    assert [layer.gamma is None for layer in layers] == [False, True, True]


def test_blocks_can_be_read_again_and_side_by_side(tmp_path: Path) -> None:
    (layer,) = open_activations(npz(tmp_path / "a.npz", compressed=True, a_x=X))
    pairs = list(zip(layer.blocks(6), layer.blocks(6), strict=True))
    assert len(pairs) == 15
    for row, (one, two) in enumerate(pairs):
        assert np.array_equal(one, ROWS[row : row + 1]) and np.array_equal(one, two)
    assert np.array_equal(read(layer), ROWS)


def test_blocks_refuses_less_than_one_element(tmp_path: Path) -> None:
    (layer,) = open_activations(npz(tmp_path / "a.npz", a_x=X))
    with pytest.raises(ApproxNormError, match="max_elements is 0"):
        layer.blocks(0)


@pytest.mark.parametrize(
    ("stored", "want"),
    [("<f2", "f4"), (">f4", "f4"), ("<f4", "f4"), (">f8", "f8"), ("<i2", "f8"), ("<u8", "f8")],
)
def test_gamma_is_float32_or_float64(tmp_path: Path, stored: str, want: str) -> None:
    gamma = np.arange(6).astype(stored)
    (layer,) = open_activations(npz(tmp_path / "a.npz", a_x=X, a_gamma=gamma))
    assert layer.gamma is not None and layer.gamma.dtype == np.dtype(want)
    assert np.array_equal(layer.gamma, np.arange(6))


@pytest.mark.parametrize("eps", [EPS, np.float64(1e-6), np.array([0.5]), np.int32(0)])
def test_eps_is_the_shortest_decimal_of_the_stored_value(tmp_path: Path, eps: Any) -> None:
    (layer,) = open_activations(npz(tmp_path / "a.npz", a_x=X, a_eps=eps))
    assert type(layer.eps) is float and layer.eps == float(str(np.asarray(eps).reshape(-1)[0]))


# --- safetensors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"])
def test_safetensors_dtypes(tmp_path: Path, dtype: str) -> None:
    array = np.abs(X * 30).astype(dtype)
    save_file({"m.0.x": array, "m.0.gamma": GAMMA}, tmp_path / "a.safetensors")
    (layer,) = open_activations(tmp_path / "a.safetensors")
    assert (layer.name, layer.rows, layer.is_codes) == ("m.0", 15, dtype[0] in "iu")
    got = read(layer, 13)
    assert got.dtype == (np.int64 if dtype[0] in "iu" else np.float32)
    assert np.array_equal(got, array.reshape(15, 6))
    assert np.array_equal(layer.gamma, GAMMA)  # type: ignore[arg-type]


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    finite = every[(every & 0x7F80) != 0x7F80]  # exponent of all ones: infinity or NaN
    want = (finite.astype(np.uint32) << 16).view(np.float32).reshape(-1, 8)
    tensors = {
        "n.x": ("BF16", list(want.shape), finite.tobytes()),
        "n.gamma": ("BF16", [8], np.full(8, 0x3FC0, np.uint16).tobytes()),
        "n.eps": ("BF16", [], b"\x80\x3f"),
    }
    (layer,) = open_activations(raw_safetensors(tmp_path / "a.safetensors", tensors))
    got = read(layer, 4000)
    assert not layer.is_codes and got.dtype == np.float32
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))  # the signs of zeros as well
    assert layer.gamma is not None and layer.gamma.dtype == np.float32
    assert layer.gamma.tolist() == [1.5] * 8 and layer.eps == 1.0


def test_layers_of_safetensors_come_in_the_order_of_the_data(tmp_path: Path) -> None:
    tensors = {name: ("F32", [1, 2], bytes(8)) for name in ("b.x", "a.x", "c.x")}
    layers = open_activations(raw_safetensors(tmp_path / "a.safetensors", tensors))
    assert [layer.name for layer in layers] == ["b", "a", "c"]


@pytest.mark.parametrize(("key", "name"), [("hidden", "hidden"), ("m.norm", "m.norm"), ("x", "x")])
def test_a_single_tensor_needs_no_suffix(tmp_path: Path, key: str, name: str) -> None:
    save_file({key: X}, tmp_path / "a.safetensors")
    (layer,) = open_activations(tmp_path / "a.safetensors")
    assert layer.name == name and np.array_equal(read(layer), ROWS)


def test_safetensors_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file({"a.x": X}, tmp_path / "a.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ApproxNormError, match=r"pip install 'approxnorm\[safetensors\]'"):
        open_activations(tmp_path / "a.safetensors")


@pytest.mark.parametrize("dtype", ["BOOL", "F8_E4M3"])
def test_safetensors_refuses_other_dtypes(tmp_path: Path, dtype: str) -> None:
    path = raw_safetensors(tmp_path / "a.safetensors", {"a.x": (dtype, [2, 2], bytes(4))})
    with pytest.raises(ApproxNormError, match=f"'a.x' has dtype {dtype}; allowed are float16, bf"):
        open_activations(path)


def test_safetensors_with_a_key_twice(tmp_path: Path) -> None:
    entry = b'"a.x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    text = b"{" + entry + b"," + entry + b"}"
    (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(ApproxNormError, match=r"'a\.x' more than once"):
        open_activations(tmp_path / "a.safetensors")


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff" * 8 + b"{}", b"\x02" + bytes(7) + b"{}zz"])
def test_safetensors_foreign(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ApproxNormError, match=r"a\.safetensors is damaged or not a safetensors"):
        open_activations(tmp_path / "a.safetensors")


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"), [(np.nan, "NaN"), (np.inf, "an infinity"), (-np.inf, "an infinity")]
)
@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_activations_that_are_not_finite(
    tmp_path: Path, dtype: str, suffix: str, value: float, says: str
) -> None:
    bad = X.astype(dtype)
    bad[4, 1, 2] = value  # row 13 of the flattened batch
    path = tmp_path / f"acts.{suffix}"
    if suffix == "npy":
        np.save(path, bad)
    elif suffix == "npz":
        npz(path, ok_x=X, deep_norm_x=bad)
    else:
        save_file({"deep.norm.x": bad}, path)
    layer = open_activations(path)[-1]
    blocks = layer.blocks(12)
    for start in range(0, 12, 2):
        assert np.array_equal(next(blocks), bad.reshape(15, 6)[start : start + 2])
    with pytest.raises(ApproxNormError, match=f"holds {says} at row 13, channel 2;") as caught:
        next(blocks)
    assert str(path) in str(caught.value)
    assert suffix == "npy" or "deep.norm" in str(caught.value)


def test_float64_beyond_float32(tmp_path: Path) -> None:
    wide = X.astype(np.float64)
    wide[1, 0, 5] = -1e300
    (layer,) = open_activations(npz(tmp_path / "a.npz", n_x=wide))
    with pytest.raises(ApproxNormError, match=r"'n\.x' holds -1e\+300 at row 3, channel 5, which"):
        list(layer.blocks())


def test_float64_just_within_float32(tmp_path: Path) -> None:
    most = float(np.finfo(np.float32).max)
    np.save(tmp_path / "a.npy", np.array([most, -most]))
    assert read_file(tmp_path / "a.npy")[0].tolist() == [[most, -most]]


def test_codes_beyond_int64(tmp_path: Path) -> None:
    codes = np.zeros((3, 2), np.uint64)
    codes[1, 1] = (1 << 63) - 1
    np.save(tmp_path / "a.npy", codes)
    assert read_file(tmp_path / "a.npy")[0].tolist() == codes.tolist()
    codes[2, 0] = 1 << 63
    np.save(tmp_path / "a.npy", codes)
    with pytest.raises(ApproxNormError, match="holds 9223372036854775808 at row 2, channel 0"):
        read_file(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"gamma": GAMMA[:5]}, r"layer 'n' has gamma of 5 values; its x has 6 channels"),
        ({"gamma": GAMMA[None]}, r"layer 'n' has gamma of shape \(1, 6\)"),
        ({"gamma": EPS}, r"layer 'n' has gamma of shape \(\)"),
        ({"gamma": np.array([1, 2, 3, np.nan, 5, 6])}, r"'n\.gamma' holds NaN at row 0, channel 3"),
        ({"gamma": np.array([1, 2, np.inf, 4, 5, 6])}, r"'n\.gamma' holds an inf.* channel 2"),
        ({"gamma": np.full(6, (1 << 53) + 1)}, r"layer 'n' has integers in gamma beyond 2\^53"),
        ({"gamma": np.zeros(6, bool)}, r"'n\.gamma' has dtype bool; allowed are"),
        ({"eps": np.float32(-1e-5)}, r"layer 'n' has eps = -1e-05; it must be 0 or pos"),
        ({"eps": np.float32(np.nan)}, r"'n\.eps' holds NaN"),
        ({"eps": np.float32(np.inf)}, r"'n\.eps' holds an infinity"),
        ({"eps": np.zeros(2)}, r"layer 'n' has eps of shape \(2,\); it must be one number"),
        ({"eps": np.zeros(0)}, r"layer 'n' has eps of shape \(0,\)"),
        ({"eps": np.array("1e-5")}, r"'n\.eps' has dtype <U4; allowed are"),
        ({"x": EPS}, r"layer 'n' has x of shape \(\); it must have a last axis"),
        ({"x": np.zeros((4, 0))}, r"layer 'n' has x of shape \(4, 0\)"),
        ({"x": np.zeros(0)}, r"layer 'n' has x of shape \(0,\)"),
        ({"x": np.zeros((2, 6), bool)}, r"'n\.x' has dtype bool"),
        ({"x": np.zeros((2, 6), complex)}, r"'n\.x' has dtype complex128"),
        ({"x": np.zeros((2, 6), object)}, r"'n\.x' has dtype object"),
        ({"x": np.zeros((2, 6), "S3")}, r"'n\.x' has dtype \|S3"),
        ({"x": np.zeros((2, 6), "M8[s]")}, r"'n\.x' has dtype datetime64"),
        ({"x": np.zeros((2, 6), [("a", "f4")])}, r"'n\.x' has dtype \[\('a', '<f4'\)\]"),
        ({"x": np.zeros((2, 6), np.longdouble)}, r"'n\.x' has dtype float128"),
        ({"gama": GAMMA}, r"holds the key 'n\.gama'; allowed are NAME\.x, NAME\.gamma and NAME"),
    ],
)
def test_what_a_layer_must_look_like(tmp_path: Path, parts: dict[str, Any], says: str) -> None:
    arrays = {f"n.{part}": value for part, value in ({"x": X} | parts).items()}
    np.savez(tmp_path / "acts.npz", **arrays)
    with pytest.raises(ApproxNormError, match=says) as caught:
        open_activations(tmp_path / "acts.npz")
    assert str(tmp_path / "acts.npz") in str(caught.value)


@pytest.mark.parametrize("part", ["gamma", "eps"])
def test_gamma_or_eps_without_x(tmp_path: Path, part: str) -> None:
    np.savez(tmp_path / "a.npz", **{"m.x": X, f"n.{part}": EPS})  # type: ignore[arg-type]
    with pytest.raises(ApproxNormError, match=f"layer 'n' has {part} but no x; add 'n.x'"):
        open_activations(tmp_path / "a.npz")


@pytest.mark.parametrize("key", ["x", ".x", "n", "n.X", "n.x.y", "n.y"])
def test_keys_that_belong_to_no_layer(tmp_path: Path, key: str) -> None:
    np.savez(tmp_path / "a.npz", **{"m.x": X, key: X})  # type: ignore[arg-type]
    with pytest.raises(ApproxNormError, match=f"holds the key '{key}'; allowed are NAME.x"):
        open_activations(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["n.x.npy", "n.x"])
def test_keys_that_collide(tmp_path: Path, second: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("n.x.npy", npy_bytes(X))
        archive.writestr(second, npy_bytes(X))
    with pytest.raises(ApproxNormError, match=r"holds the key 'n\.x' more than once"):
        open_activations(tmp_path / "a.npz")


# --- files that are no such files -----------------------------------------------------------------


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=r"none\.npz does not exist"):
        open_activations(tmp_path / "none.npz")
    (tmp_path / "dir.npz").mkdir()
    with pytest.raises(ApproxNormError, match=r"dir\.npz is not a regular file"):
        open_activations(tmp_path / "dir.npz")
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ApproxNormError, match=r"pipe\.npy is not a regular file"):
        open_activations(tmp_path / "pipe.npy")
    for name in ("a" * 5000 + ".npy", "a\0.npy"):
        with pytest.raises(ApproxNormError, match="does not exist"):
            open_activations(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a", "a.pt", "a.npz.bak"])
def test_suffixes(tmp_path: Path, name: str) -> None:
    with pytest.raises(ApproxNormError, match=r"must be in one of \.npz, \.npy, \.safetensors"):
        open_activations(tmp_path / name)


def test_suffixes_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.NPY").write_bytes(npy_bytes(X))
    assert np.array_equal(read_file(tmp_path / "A.NPY")[0], ROWS)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends inside its NPY header"),
        (b"hello, world", "is not an NPY array"),
        (b"\x93NUMPY\x04\x00\x00\x00", r"header version 4\.0; allowed are 1\.0, 2\.0 and 3\.0"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "claims an NPY header of 4294967295 bytes"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b" " * 65535, "claims an NPY header of 65535 bytes"),
        (raw_npy("{'descr': '<f4'"), "header that cannot be parsed"),
        (raw_npy("(" * 9000), "header that cannot be parsed"),
        (raw_npy("__import__('os')"), "header that cannot be parsed"),
        (
            raw_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4)}", bytes(16)),
            r"impossible shape \(-1, -4\)",
        ),
        (
            raw_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1" + "0" * 30 + ")}"),
            "impossible shape",
        ),
        (
            raw_npy(
                "{'descr': '<f4', 'fortran_order': True, 'shape': (%s)}" % ("1," * 65), b"abcd"
            ),
            "has 65 axes; at most 32",
        ),
        (
            raw_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000)}"),
            "asks for 64000000000000000.*truncated",
        ),
        (npy_bytes(X)[:-1], "truncated"),
        (npy_bytes(X)[:90], "ends inside its NPY header"),
        (npy_bytes(X) + b"\0", "followed by foreign bytes"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_damaged_arrays(tmp_path: Path, suffix: str, data: bytes, says: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(data)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.x.npy", data)
    with pytest.raises(ApproxNormError, match=says) as caught:
        open_activations(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_foreign_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(ApproxNormError, match=r"a\.npz is damaged or not an \.npz archive"):
        open_activations(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(ApproxNormError, match=r"a\.npz holds no arrays"):
        open_activations(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "for your information")
    with pytest.raises(ApproxNormError, match=r"'notes\.txt' is not an NPY array"):
        open_activations(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.x.npy", npy_bytes(X))
    with pytest.raises(ApproxNormError, match=r"'a\.x' is compressed by zip method 12; allowed"):
        open_activations(path)
    npz(path, a_x=X)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(ApproxNormError, match="followed by foreign bytes"):
        open_activations(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_wrong_checksum_stops_before_the_last_block(tmp_path: Path, order: Any) -> None:
    # Long enough that zipfile does not reach the end, and the checksum, with the header already.
    x = np.asarray(np.tile(X, (100, 1, 1)), order=order)
    path = npz(tmp_path / "a.npz", n_x=x)
    data = bytearray(path.read_bytes())
    data[data.index(x.tobytes(order="A")[:100]) + 3] ^= 1
    path.write_bytes(data)
    (layer,) = open_activations(path)
    got = []
    with pytest.raises(ApproxNormError, match=r"'n\.x' is damaged .*CRC"):
        for block in layer.blocks(6 * 500):
            got.append(block)
    assert len(got) == (2 if order == "C" else 0)  # of three


def test_a_wrong_checksum_in_gamma_is_found_on_opening(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", n_x=X, n_gamma=GAMMA)
    data = bytearray(path.read_bytes())
    data[data.index(GAMMA.tobytes()) + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ApproxNormError, match=r"'n\.gamma' is damaged .*CRC"):
        open_activations(path)


def test_a_member_that_claims_more_than_it_can_hold(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 500000000)}"
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("n.x.npy", raw_npy(header))
    claimed = len(raw_npy(header)) + 2_000_000_000
    data = bytearray(path.read_bytes())
    size_at = data.index(b"PK\x01\x02") + 24  # of the uncompressed size in the directory
    data[size_at : size_at + 4] = claimed.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ApproxNormError, match=r"'n\.x' claims 2000000\d+ bytes, which its"):
        open_activations(path)


def test_a_directory_that_hides_a_member(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", n_x=X, n_gamma=GAMMA)
    data = bytearray(path.read_bytes())
    comment_at = data.index(b"PK\x01\x02") + 32  # the length of the first member's comment
    data[comment_at] = 255
    path.write_bytes(data)
    with pytest.raises(ApproxNormError, match="has a damaged directory"):
        open_activations(path)


@pytest.mark.parametrize("name", ["a.npy", "f.npy", "a.safetensors"])
def test_a_file_that_shrinks_after_it_was_opened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, X if name == "a.npy" else np.asfortranarray(X))
    else:
        save_file({"n.x": X}, path)
    (layer,) = open_activations(path)
    os.truncate(path, path.stat().st_size - 50)
    with pytest.raises(ApproxNormError, match=r"truncated|became shorter"):
        list(layer.blocks(6))


@pytest.mark.parametrize("name", ["a.npy", "f.npy", "a.npz", "a.safetensors"])
def test_a_file_that_vanishes_after_it_was_opened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, X if name == "a.npy" else np.asfortranarray(X))
    elif path.suffix == ".npz":
        npz(path, n_x=X)
    else:
        save_file({"n.x": X}, path)
    (layer,) = open_activations(path)
    path.unlink()
    with pytest.raises(ApproxNormError, match="cannot be read: No such file"):
        list(layer.blocks())


@pytest.mark.parametrize("kind", ["stored", "deflated", "npy", "safetensors"])
def test_random_damage_gives_an_error_or_the_truth(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("a.npz" if kind in ("stored", "deflated") else f"a.{kind}")
    arrays = {"n.x": X, "n.gamma": GAMMA, "n.eps": np.asarray(EPS)}
    if kind == "npy":
        np.save(path, X)
    elif kind == "safetensors":
        save_file(arrays, path)
    else:
        npz(path, kind == "deflated", n_x=X, n_gamma=GAMMA, n_eps=EPS)
    good = path.read_bytes()
    rng = random.Random(5)
    refused = 0
    for _ in range(400):
        path.write_bytes(_damaged(good, rng))
        try:
            (layer,) = open_activations(path)
            got = read(layer, 12)
        except ApproxNormError as error:
            refused += 1
            assert str(path) in str(error) and "\n" not in str(error)
            continue
        if path.suffix == ".npz":  # the others have no checksum
            assert np.array_equal(got, ROWS)
            assert layer.eps == 1e-5
            assert layer.gamma is not None and np.array_equal(layer.gamma, GAMMA)
    assert refused > 100


def _damaged(good: bytes, rng: random.Random) -> bytes:
    """Cut the file short, or set a few bytes, at its ends (where the headers are) more often."""
    if rng.random() < 0.3:
        return good[: rng.randrange(len(good))]
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 2, 4])):
        near = rng.randrange(min(250, len(data)))
        at = rng.choice([near, len(data) - 1 - near, rng.randrange(len(data))])
        data[at] = rng.choice([0, 255, rng.randrange(256), ord("("), ord("9")])
    return bytes(data)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stored", "deflated", "npy", "npy F", "safetensors"])
def test_64_megabytes_are_read_in_less_than_16(tmp_path: Path, kind: str) -> None:
    shape = (8192, 2048)
    x = np.arange(shape[0], dtype=np.float32)[:, None] + np.zeros(shape[1], np.float32)
    path = tmp_path / ("a.npz" if kind in ("stored", "deflated") else f"a.{kind.split()[0]}")
    if path.suffix == ".npz":
        npz(path, kind == "deflated", n_x=x, n_gamma=x[0])
    elif path.suffix == ".npy":
        np.save(path, np.asfortranarray(x) if kind == "npy F" else x)
    else:
        save_file({"n.x": x}, path)
    del x
    tracemalloc.start()
    (layer,) = open_activations(path)
    row = 0
    for block in layer.blocks():
        assert (block == np.arange(row, row + len(block))[:, None]).all()
        row += len(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert row == 8192
    assert peak < 16 << 20


def test_fortran_members_are_loaded_whole_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = npz(tmp_path / "a.npz", n_x=np.asfortranarray(X))
    monkeypatch.setattr("approxnorm.inputs.npz.MAX_FORTRAN_MEMBER", X.nbytes)
    assert np.array_equal(read_file(path)[0], ROWS)
    monkeypatch.setattr("approxnorm.inputs.npz.MAX_FORTRAN_MEMBER", X.nbytes - 1)
    with pytest.raises(ApproxNormError, match=r"'n\.x' is 360 bytes in Fortran order; at most 359"):
        open_activations(path)


# --- single arrays --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        GAMMA,
        np.asfortranarray(X),
        GAMMA.astype(">f8"),
        np.array([-128, 127], np.int8),
        EPS,
        np.empty((0, 3)),
    ],
)
def test_load_array_keeps_shape_and_values(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "g.npy", array)
    got = load_array(tmp_path / "g.npy", what="gamma")
    want = np.asarray(array)
    assert got.shape == want.shape and got.dtype == want.dtype.newbyteorder("=")
    assert got.dtype.isnative and got.flags.c_contiguous
    assert np.array_equal(got, want)


def test_load_array_errors(tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    with pytest.raises(ApproxNormError, match=r"^gamma: .*g\.npy does not exist"):
        load_array(path, what="gamma")
    np.save(path, np.array([1, np.nan]))
    with pytest.raises(ApproxNormError, match=r"^gamma: .* holds NaN at row 0, channel 1"):
        load_array(path, what="gamma")
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(ApproxNormError, match=r"^gamma: .* has dtype object"):
        load_array(path, what="gamma")
    path.write_bytes(b"PK")
    with pytest.raises(ApproxNormError, match=r"^gamma: .* truncated or not an NPY array"):
        load_array(path, what="gamma")
    with pytest.raises(ApproxNormError, match=r"^gamma: .* suffix '\.npz'; it must be a \.npy"):
        load_array(tmp_path / "g.npz", what="gamma")


def test_save_array_writes_what_numpy_would(tmp_path: Path) -> None:
    np.save(tmp_path / "numpy.npy", X)
    (tmp_path / "ours.npy").write_bytes(b"something old")
    save_array(tmp_path / "ours.npy", X)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours.npy", "numpy.npy")]
    assert modes[0] == modes[1]
    assert sorted(os.listdir(tmp_path)) == ["numpy.npy", "ours.npy"]


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("y.npz", X, r"has the suffix '\.npz'; it must be a \.npy file"),
        ("y.npy", np.array([{}]), "has dtype object"),
        ("none/y.npy", X, "cannot be written: No such file or directory"),
        ("dir.npy", X, "cannot be written: Is a directory"),
    ],
)
def test_save_array_leaves_nothing_behind(
    tmp_path: Path, name: str, array: np.ndarray, says: str
) -> None:
    (tmp_path / "dir.npy").mkdir()
    with pytest.raises(ApproxNormError, match=says):
        save_array(tmp_path / name, array)
    assert os.listdir(tmp_path) == ["dir.npy"]


def test_save_array_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(out: Any, *_: Any, **__: Any) -> None:
        out.write(b"half of it")
        raise KeyboardInterrupt

    save_array(tmp_path / "y.npy", GAMMA)
    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_array(tmp_path / "y.npy", X)
    assert os.listdir(tmp_path) == ["y.npy"]
    assert np.array_equal(load_array(tmp_path / "y.npy", what="y"), GAMMA)


def test_save_array_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.npy").write_bytes(b"precious")
    (tmp_path / "y.npy").symlink_to("target.npy")
    save_array(tmp_path / "y.npy", X)
    assert (tmp_path / "target.npy").read_bytes() == b"precious"
    assert not (tmp_path / "y.npy").is_symlink()
