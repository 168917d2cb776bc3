"""Model files and their inputs: nothing is trusted, nothing lost, nothing half-written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.rewrite.external import external_tensors, reader, tensors
from approxnorm.export.rewrite.feeds import Feeds
from approxnorm.export.rewrite.model_file import check_targets, load_model, save_model
from approxnorm.export.rewrite.session import Session, tapped

DIM = 300  # of float32: enough for onnx to store it outside by default
WEIGHT = np.arange(DIM, dtype=np.float32)


def small_model(opset: int = 21, ir_version: int = 10, **inputs: Any) -> onnx.ModelProto:
    """y = x + w, with metadata; inputs: further ones by name, as (type, shape)."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", DIM]) for n in "xy"]
    more = [helper.make_tensor_value_info(n, *given) for n, given in inputs.items()]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "sum")],
        "small",
        [ends[0], *more],
        [ends[1]],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )
    helper.set_model_props(model, {"author": "somebody"})
    return model


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model whose weight is in a folder beside it, at an offset."""
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "w.bin").write_bytes(b"\0" * 64 + WEIGHT.tobytes())
    return with_entries(folder / "m.onnx", location="data/w.bin", offset=64, length=4 * DIM)


def with_entries(path: Path, **entries: object) -> Path:
    """The small model at path, its weight said to be where the entries say."""
    model = small_model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())
    return path


def refusal(call: Callable[[], object], *parts: str) -> None:
    """The call is refused in one sentence that has all the parts."""
    with pytest.raises(ApproxNormError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


# --- what is no model -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"", b"no model", small_model().SerializeToString()[:-30], bytes(range(256))],
    ids=["empty", "text", "truncated", "bytes"],
)
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    refusal(lambda: load_model(path), str(path), "ONNX model; copy or export it again")


def test_graphs_out_of_order_are_refused(tmp_path: Path) -> None:
    model, path = small_model(), tmp_path / "m.onnx"
    model.graph.node.append(helper.make_node("Neg", ["later"], ["z"], "early"))
    path.write_bytes(model.SerializeToString())
    refusal(lambda: load_model(path), "node 'early' that reads 'later'", "must be in order")
    model.graph.node[1].input[0] = "y"
    path.write_bytes(model.SerializeToString())
    assert load_model(path) == model
    model.graph.node[1].output[0] = "w"
    path.write_bytes(model.SerializeToString())
    refusal(lambda: load_model(path), "two values of the name 'w'")


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = small_model()
    model.graph.node[0].name = "a name"
    path.write_bytes(model.SerializeToString().replace(b"a name", b"a n\xffme"))
    refusal(lambda: load_model(path), "is damaged: it has a name that is not UTF-8")


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    refusal(lambda: load_model(tmp_path / "m.pb"), "suffix '.pb'", ".onnx")
    refusal(lambda: load_model(tmp_path / "m.onnx"), "does not exist")
    refusal(lambda: load_model(tmp_path), "suffix ''")


def test_file_beyond_protobufs_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with open(path, "wb") as stream:
        stream.truncate(1 << 31)  # sparse: it takes no room
    refusal(lambda: load_model(path), "2147483648 bytes", "external data")


@pytest.mark.parametrize(
    ("opset", "part"),
    [(12, "has opset 12; allowed: 13 to "), (1000, "opset 1000, which the installed onnx")],
)
def test_unknown_opset_is_refused(opset: int, part: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model(opset).SerializeToString())
    refusal(lambda: load_model(path), str(path), part, "onnx.version_converter")


def test_missing_opset_is_refused(tmp_path: Path) -> None:
    model, path = small_model(), tmp_path / "m.onnx"
    model.opset_import[0].domain = "com.example"
    path.write_bytes(model.SerializeToString())
    refusal(lambda: load_model(path), "names no opset of the default domain", "13 to ")


def test_default_domain_has_two_names(tmp_path: Path) -> None:
    model, path = small_model(), tmp_path / "m.onnx"
    model.opset_import[0].domain = "ai.onnx"
    path.write_bytes(model.SerializeToString())
    assert load_model(path) == model


def test_unknown_ir_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model(ir_version=999).SerializeToString())
    refusal(lambda: load_model(path), "IR version 999", "install a newer one")


# --- external data --------------------------------------------------------------------------------


def test_external_data_is_checked_and_left_where_it_is(outside: Path) -> None:
    model = load_model(outside)
    (tensor,) = external_tensors(model)
    assert not tensor.HasField("raw_data")
    np.testing.assert_array_equal(reader(outside)(tensor), WEIGHT)
    np.testing.assert_array_equal(reader(outside)(small_model().graph.initializer[0]), WEIGHT)
    x = np.ones((2, DIM), np.float32)
    (y,) = Session(model, outside).run({"x": x}, ["y"])
    np.testing.assert_array_equal(y, x + WEIGHT)


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"location": "/etc/hostname"}, "without '..'"),
        ({"location": "../w.bin"}, "without '..'"),
        ({"location": "data/../../w.bin"}, "without '..'"),
        ({"location": "C:\\w.bin"}, "without '..'"),
        ({"location": "..\\w.bin"}, "without '..'"),
        ({"location": "link.bin"}, "a link that leaves the model's folder"),
        ({"location": "folder/w.bin"}, "a link that leaves the model's folder"),
        ({"location": "gone.bin"}, "does not exist"),
        ({"location": "data"}, "is no regular file"),
        ({"location": ""}, "name no file"),
        ({}, "name no file"),
        ({"location": "w.bin", "offset": 4}, "has 1200; the file is truncated"),
        ({"location": "w.bin", "length": 1204}, "1204 bytes, but its shape and type ask for 1200"),
        ({"location": "w.bin", "offset": -4}, "offset '-4'"),
        ({"location": "w.bin", "offset": "x"}, "offset 'x'"),
    ],
)
def test_external_data_elsewhere_is_refused(
    entries: dict[str, object], part: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    for place in (tmp_path, folder):
        (place / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to("../w.bin")
    (folder / "folder").symlink_to("..")
    path = with_entries(folder / "m.onnx", **entries)
    refusal(lambda: load_model(path), str(path), "tensor 'w'", part)


def test_link_within_the_folder_is_followed(outside: Path) -> None:
    (outside.parent / "same.bin").symlink_to("data/w.bin")
    path = with_entries(outside, location="same.bin", offset=64)
    (tensor,) = external_tensors(load_model(path))
    np.testing.assert_array_equal(reader(path)(tensor), WEIGHT)


def test_tensors_are_found_wherever_they_are() -> None:
    tensor = numpy_helper.from_array(WEIGHT, "inner")
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    branch = helper.make_graph([constant], "branch", [], [helper.make_empty_tensor_value_info("c")])
    model = small_model()
    model.graph.node.append(
        helper.make_node("If", ["t"], ["z"], then_branch=branch, else_branch=branch)
    )
    model.functions.append(
        helper.make_function("d", "F", [], ["c"], [constant], [helper.make_opsetid("", 21)])
    )
    assert [t.name for t in tensors(model)] == ["inner", "inner", "w", "inner"]


# --- saving ---------------------------------------------------------------------------------------


def test_external_data_goes_with_the_model(outside: Path, tmp_path: Path) -> None:
    model, out = load_model(outside), tmp_path / "new" / "q.onnx"
    out.parent.mkdir()
    check_targets(model, outside, out)
    assert save_model(model, outside, out) == [out.parent / "data" / "w.bin"]
    assert load_model(out) == model
    assert (out.parent / "data" / "w.bin").read_bytes()[64:] == WEIGHT.tobytes()
    assert save_model(model, outside, out) == []  # it is there already


def test_model_beside_the_first_shares_its_data(outside: Path) -> None:
    out = outside.with_name("q.onnx")
    assert save_model(load_model(outside), outside, out) == []
    assert load_model(out) == load_model(outside)


def test_other_data_of_that_name_are_not_replaced(outside: Path, tmp_path: Path) -> None:
    model, out = load_model(outside), tmp_path / "new" / "q.onnx"
    (out.parent / "data").mkdir(parents=True)
    (out.parent / "data" / "w.bin").write_bytes(b"of another model")
    for call in (check_targets, save_model):
        refusal(lambda call=call: call(model, outside, out), "differs from the model's external")
    assert not out.exists()


def test_data_are_not_copied_through_a_link(outside: Path, tmp_path: Path) -> None:
    model, out = load_model(outside), tmp_path / "new" / "q.onnx"
    out.parent.mkdir()
    (tmp_path / "other").mkdir()
    (out.parent / "data").symlink_to("../other")
    refusal(lambda: save_model(model, outside, out), "is a link that leaves the folder")
    assert list((tmp_path / "other").iterdir()) == []


def test_model_cannot_take_the_place_of_its_data(tmp_path: Path) -> None:
    (tmp_path / "q.onnx").write_bytes(WEIGHT.tobytes())
    path = with_entries(tmp_path / "m.onnx", location="q.onnx")
    refusal(
        lambda: save_model(load_model(path), path, tmp_path / "q.onnx"),
        "the name of the model's external data",
    )
    assert (tmp_path / "q.onnx").read_bytes() == WEIGHT.tobytes()


def test_copies_go_if_the_model_cannot_be_written(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new" / "q.onnx"
    out.parent.mkdir()
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if Path(target) == out:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    refusal(lambda: save_model(load_model(outside), outside, out), "No space left on device")
    assert list(out.parent.iterdir()) == []


# --- inputs of a model ----------------------------------------------------------------------------


def feeds(tmp_path: Path, model: onnx.ModelProto, **arrays: Any) -> Feeds:
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    return Feeds(path, model)


ROWS = np.ones((2, DIM), np.float32)


def test_one_array_an_input_is_one_run(tmp_path: Path) -> None:
    (feed,) = feeds(tmp_path, small_model(), x=ROWS)
    assert list(feed) == ["x"] and feed["x"].dtype == np.float32
    np.testing.assert_array_equal(feed["x"], ROWS)


def test_name_of_an_input_is_no_number_of_a_run(tmp_path: Path) -> None:
    model = small_model(**{"x.0": (TensorProto.INT64, [1])})
    (feed,) = feeds(tmp_path, model, x=ROWS, **{"x.0": np.array([7])})
    assert set(feed) == {"x", "x.0"}
    given = {"x.0": np.array([7]), "x.1": ROWS}
    refusal(lambda: feeds(tmp_path, model, **given), "has no 'x.0', but runs up to 1")


def test_runs_of_several_inputs(tmp_path: Path) -> None:
    model = small_model(mask=(TensorProto.BOOL, ["b"]))
    given = {f"x.{i}": ROWS[:i] for i in range(3)} | {"mask": np.array([True])}
    found = list(feeds(tmp_path, model, **given))
    assert [len(feed["x"]) for feed in found] == [0, 1, 2]
    assert all(feed["mask"].dtype == bool for feed in found)


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({}, ["no array for the model's input 'x'", "it holds nothing", "inputs are 'x'"]),
        ({"X": ROWS}, ["'X', which is no input of the model", "allowed: 'x'"]),
        ({"x.a": ROWS}, ["'x.a', which is no input"]),
        ({"x.01": ROWS}, ["'x.01', which is no input"]),
        ({"x.0": ROWS, "x.9999999999": ROWS}, ["has no 'x.1'", "runs up to 9999999999"]),
        ({"x.0": ROWS, "x.2": ROWS}, ["has no 'x.1'", "runs up to 2"]),
        ({"x": ROWS, "x.0": ROWS}, ["'x' and 'x.0'", "one array for all runs, or one for each"]),
        ({"x": ROWS[:, :5]}, ["has shape (2, 5)", f"wants (any, {DIM})"]),
        ({"x": ROWS[0]}, [f"has shape ({DIM},)", f"wants (any, {DIM})"]),
        ({"x": ROWS.astype(np.int64)}, ["has dtype int64; the model wants float32"]),
        ({"x": ROWS * np.float64(1e300)}, ["a number beyond float32"]),
        ({"x": ROWS.astype("U4")}, ["has dtype <U4; the model wants float32"]),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    arrays: dict[str, np.ndarray], parts: list[str], tmp_path: Path
) -> None:
    refusal(lambda: feeds(tmp_path, small_model(), **arrays), "inputs.npz", *parts)


@pytest.mark.parametrize(
    ("type_", "array", "want"),
    [
        ("FLOAT", np.float64([[0.1] * DIM]), np.float32(0.1)),
        ("FLOAT", np.float16([[0.1] * DIM]), np.float32(np.float16(0.1))),
        ("FLOAT", np.float64([[np.inf] * DIM]), np.float32(np.inf)),
        ("FLOAT", np.ones((1, DIM), ">f4"), np.float32(1)),
        ("DOUBLE", np.float32([[0.1] * DIM]), np.float64(np.float32(0.1))),
        ("INT64", np.int32([[-3] * DIM]), np.int64(-3)),
        ("INT32", np.int64([[-3] * DIM]), np.int32(-3)),
        ("UINT8", np.int64([[255] * DIM]), np.uint8(255)),
        ("BOOL", np.int64([[1] * DIM]), np.True_),
        ("INT64", np.array([[True] * DIM]), np.int64(1)),
    ],
)
def test_numbers_take_the_models_type(
    type_: str, array: np.ndarray, want: Any, tmp_path: Path
) -> None:
    model = small_model(z=(TensorProto.DataType.Value(type_), [1, DIM]))
    (feed,) = feeds(tmp_path, model, x=ROWS, z=array)
    assert feed["z"].dtype == want.dtype and feed["z"].dtype.isnative
    assert (feed["z"] == want).all()


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("INT32", np.int64([1 << 40])),
        ("UINT64", np.int64([-1])),
        ("INT64", np.uint64([1 << 63])),
        ("UINT8", np.int64([256])),
        ("BOOL", np.int64([2])),
        ("FLOAT16", np.float32([1])),
        ("FLOAT16", np.float64([1])),
        ("INT64", np.float32([1])),
    ],
)
def test_numbers_that_would_change_are_refused(
    type_: str, array: np.ndarray, tmp_path: Path
) -> None:
    model = small_model(z=(TensorProto.DataType.Value(type_), [1]))
    refusal(lambda: feeds(tmp_path, model, x=ROWS, z=array), "'z' has dtype", str(array.dtype))


def test_inputs_with_defaults_may_be_left_out(tmp_path: Path) -> None:
    model = small_model(w=(TensorProto.FLOAT, [DIM]))
    assert [list(feed) for feed in feeds(tmp_path, model, x=ROWS)] == [["x"]]
    assert [set(feed) for feed in feeds(tmp_path, model, x=ROWS, w=WEIGHT)] == [{"x", "w"}]


def test_inputs_of_other_kinds_are_refused(tmp_path: Path) -> None:
    model = small_model(z=(TensorProto.BFLOAT16, [1]))
    refusal(lambda: feeds(tmp_path, model, x=ROWS), "input 'z' is BFLOAT16; allowed: tensors of")


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    model, path = small_model(), tmp_path / "inputs.npz"
    refusal(lambda: Feeds(tmp_path / "a.npy", model), "suffix '.npy'", ".npz")
    refusal(lambda: Feeds(path, model), "does not exist")
    with open(path, "wb") as stream:
        np.save(stream, ROWS)
    refusal(lambda: Feeds(path, model), "damaged or not an .npz archive")
    path.write_bytes(b"PK\3\4 no archive")
    refusal(lambda: Feeds(path, model), "damaged or not an .npz archive")
    np.savez(path, x=ROWS)
    path.write_bytes(path.read_bytes()[:-300])
    refusal(lambda: Feeds(path, model), "damaged or not an .npz archive")


def test_pickles_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.array([Bomb()], dtype=object))
    refusal(lambda: Feeds(path, small_model()), "allow_pickle=False")
    assert not Bomb.exploded


class Bomb:
    """Tells if it is unpickled."""

    exploded = False

    def __setstate__(self, state: object) -> None:
        Bomb.exploded = True

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


# --- ONNX Runtime ---------------------------------------------------------------------------------


def test_values_inside_become_outputs() -> None:
    model = small_model()
    model.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
    model.graph.output[0].name = "z"
    session = Session(tapped(model, ["y", "x", "y", "z", "w"]), Path("m.onnx"))
    groups = [["y", "x"], ["y"], ["w", "z"]]
    found = dict(session.run_groups({"x": ROWS}, groups))
    y = ROWS + WEIGHT
    for index, want in {0: [y, ROWS], 1: [y], 2: [WEIGHT, -y]}.items():
        for one, other in zip(found[index], want, strict=True):
            np.testing.assert_array_equal(one, other)


def test_groups_come_in_passes_that_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approxnorm.export.rewrite.session._MAX_BYTES", 5 * ROWS.nbytes)
    session = Session(small_model(), Path("m.onnx"))
    asked: list[int] = []
    run = session.run
    monkeypatch.setattr(
        session, "run", lambda feed, names: asked.append(len(names)) or run(feed, names)
    )
    found = list(session.run_groups({"x": ROWS}, [["y"]] * 20))
    assert [index for index, _ in found] == list(range(20))
    assert asked == [8, 5, 5, 2]


def test_failures_of_onnx_runtime_are_one_sentence(tmp_path: Path) -> None:
    model = small_model()
    refusal(
        lambda: Session(model, Path("m.onnx")).run({"x": ROWS[:, :3]}, ["y"]),
        "m.onnx cannot be run by ONNX Runtime",
    )
    model.graph.node[0].op_type = "NoSuchOperator"
    refusal(lambda: Session(model, Path("m.onnx")), "m.onnx is refused by ONNX Runtime")
