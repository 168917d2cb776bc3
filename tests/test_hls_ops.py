"""Every operation as C++ against its own value, on small ranges in full and on wide ones."""

import struct
import subprocess
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_programs import (
    LIMITS,
    ONE,
    SHIFTED,
    TOP,
    TWO,
    UNEVEN,
    Programs,
    any_sizes,
    described,
    every_mode,
    numbers_alone,
    products_of_narrow_values,
    two_values,
    unlimited,
    wide,
)

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Overflow
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit.names import identifier, type_of
from approxnorm.hls_ref.emit.programs import function_name, function_text, signals_type
from approxnorm.hls_ref.emit.tables import table_text
from approxnorm.program import Interval, Program, ops
from approxnorm.program.interval import check_width


def check(programs: Programs, folder: Path) -> None:
    """Compile, run, and compare every output of every program on every sample."""
    found = run(programs, folder)
    for datapath, columns, values in zip(programs.datapaths, programs.samples, found, strict=True):
        (stage,) = datapath.programs()
        inputs = {f"i{n}": column[None, :] for n, column in enumerate(columns)}
        wanted = NumpyBackend(datapath).run_traced(inputs)
        for node, got in zip(stage.program.named_nodes(), values, strict=True):
            assert node.name is not None
            right = wanted[node.name][0].astype(np.int64)
            bad = np.flatnonzero(got != right)
            assert not bad.size, (
                f"{node.name} of {described(stage.program)} at {columns[:, bad[0]].tolist()}:"
                f" {got[bad[0]]}, not {right[bad[0]]}"
            )


HEAD = """\
#include <cstdio>
#include <cstdlib>
#include "approx/ops.hpp"
static void get(void *data, size_t size, std::FILE *file) {
    if (std::fread(data, size, 1, file) != 1) std::exit(2);
}
"""


def run(programs: Programs, folder: Path) -> list[np.ndarray]:
    """Values (outputs, samples) of each program, from C++."""
    (folder / "programs.cpp").write_text("".join(source(programs)), "utf-8")
    csim.compile_program(
        folder / "programs",
        [folder / "programs.cpp"],
        [csim.HERE / "include"],
        ["-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"],
    )
    with (folder / "in").open("wb") as file:
        for columns in programs.samples:
            file.write(struct.pack("q", columns.shape[1]) + columns.T.tobytes())
    subprocess.run([folder / "programs", folder / "in", folder / "out"], check=True)
    values, found, at = np.fromfile(folder / "out", np.int64), [], 0
    for program, columns in zip(programs.traced, programs.samples, strict=True):
        shape = (columns.shape[1], len(program.named_nodes()))
        found.append(values[at : at + prod(shape)].reshape(shape).T)
        at += prod(shape)
    assert at == values.size
    return found


def source(programs: Programs) -> Iterator[str]:
    yield HEAD
    tables = {t: None for d in programs.datapaths for t in d.tables()}
    yield "namespace rom {\n" + "".join(map(table_text, tables)) + "}\n"
    for program in programs.traced:
        yield function_text(program, "each element") + "".join(loop(program))
    yield "int main(int, char **argv) {\n"
    yield '    std::FILE *in = std::fopen(argv[1], "rb"), *out = std::fopen(argv[2], "wb");\n'
    yield "".join(f"    run_{p.name}(in, out);\n" for p in programs.traced)
    yield "    return std::fclose(out);\n}\n"


def loop(program: Program) -> Iterator[str]:
    """A function that runs a program on all samples of a file."""
    arguments = [
        f"{type_of(node.interval)}(a[{n}])"
        for n, node in enumerate(program.nodes[: len(program.inputs)])
    ]
    outputs = [f"s.{identifier(n.name or '')}.to_int64()" for n in program.named_nodes()]
    yield f"static void run_{program.name}(std::FILE *in, std::FILE *out) {{\n"
    yield f"    long long count, a[{len(arguments)}];\n"
    yield "    get(&count, sizeof count, in);\n"
    yield "    while (count--) {\n        get(a, sizeof a, in);\n"
    yield f"        const {signals_type(program)} s = {function_name(program)}("
    yield f"{', '.join(arguments)});\n"
    yield f"        const long long made[] = {{{', '.join(outputs)}}};\n"
    yield "        std::fwrite(made, sizeof made, 1, out);\n    }\n}\n"


@pytest.mark.parametrize("op", sorted(TWO))
def test_of_two_values(op: str, tmp_path: Path) -> None:
    programs = two_values(TWO[op], len(op))
    if op == "mul":
        products_of_narrow_values(programs)
    check(programs, tmp_path)


# --- of one value -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(ONE))
def test_of_other_values(kind: str, tmp_path: Path) -> None:
    make, operations = ONE[kind]
    programs = make()
    used = {node.op for program in programs.traced for node in program.nodes}
    assert operations <= used
    check(programs, tmp_path)


def test_every_operation_is_tested() -> None:
    assert set(TWO).union(*(used for _, used in ONE.values()), {"round_shift"}) == set(ops.OPS)


# --- rounding shifts ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [every_mode, any_sizes])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_shifts(make: Callable[[int], Programs], seed: int, tmp_path: Path) -> None:
    check(make(seed), tmp_path)


def test_rounding_shifts_without_limits(tmp_path: Path) -> None:
    check(unlimited(), tmp_path)


def test_every_limit_is_drawn() -> None:
    drawn_limits = {
        (node.attrs["lo"], node.attrs["hi"])
        for make in (every_mode, any_sizes)
        for seed in range(3)
        for program in make(seed).traced
        for node in program.nodes
        if node.op == "round_shift"
    }
    assert len(drawn_limits & set(LIMITS + SHIFTED + UNEVEN)) >= 18


# --- how numbers and names are written ----------------------------------------------------------


def test_numbers_alone(tmp_path: Path) -> None:
    check(numbers_alone(), tmp_path)


KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
OURS = ["signals", "t1", "t2", "approx", "rom"]


def test_any_word_is_a_name(tmp_path: Path) -> None:
    programs = Programs()

    def words(x: Any, y: Any) -> Any:
        made = []
        for word in [*KEYWORDS.split(), *OURS]:
            y = ops.named(word, ops.saturate(x + y + 1, (-90, 90), Overflow.SAT))
            made.append(y)
        return tuple(made)

    programs.add(words, (-5, 5), (0, 3))
    check(programs, tmp_path)


def test_a_wrong_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: one sample that differs is told with its arguments."""
    programs = Programs()
    programs.one(ops.add, (-4, 3), (0, 3))
    real = run

    def spoiled(programs: Programs, folder: Path) -> list[np.ndarray]:
        found = [np.array(values) for values in real(programs, folder)]
        found[0][0, 5] += 1
        return found

    monkeypatch.setattr(f"{__name__}.run", spoiled)
    with pytest.raises(AssertionError, match=r"y of .* at \[-3, 1\]: -1, not -2"):
        check(programs, tmp_path)


def test_signals_past_63_bits_are_left_out() -> None:
    programs = Programs()
    programs.one(ops.mul, wide(62), wide(62))
    assert programs.datapaths == []
    check_width(Interval(-TOP - 1, TOP), "the widest")
