"""A program as a small inline C++ function that returns every named signal."""

from __future__ import annotations

from collections.abc import Iterator

from approxnorm.hls_ref.emit.expressions import expression
from approxnorm.hls_ref.emit.names import identifier, interval_text, literal, type_of
from approxnorm.program.datapath import MapStage
from approxnorm.program.signal import Node, Program


def signals_type(program: Program) -> str:
    """The struct of a program's named signals."""
    return f"{program.name}_signals"


def function_name(program: Program) -> str:
    return identifier(program.name)


def program_text(stage: MapStage) -> str:
    """The struct of a stage's signals, and the function that computes them."""
    return function_text(
        stage.program, "each element" if stage.level == "element" else "once a row"
    )


def function_text(program: Program, when: str) -> str:
    """The same of a program; ``when`` it runs."""
    kind = signals_type(program)
    return (
        f"// {program.name}: {when}.\n"
        f"struct {kind} {{\n{_fields(program)}}};\n\n"
        f"static inline {kind} {function_name(program)}({_parameters(program)}) {{\n"
        "#pragma HLS INLINE\n"
        f"    {kind} signals;\n"
        f"{''.join(_statements(program))}"
        "    return signals;\n}\n"
    )


def _fields(program: Program) -> str:
    return "".join(
        f"    {type_of(n.interval)} {identifier(n.name or '')};  // {interval_text(n.interval)}\n"
        for n in program.named_nodes()
    )


def _parameters(program: Program) -> str:
    inputs = program.nodes[: len(program.inputs)]
    return ", ".join(f"const {type_of(n.interval)} &{identifier(n.name or '')}" for n in inputs)


def _statements(program: Program) -> Iterator[str]:
    """One line for each node that something reads, in order."""
    spelling = _spellings(program)
    live = program.needed(i for i, n in enumerate(program.nodes) if n.name is not None)
    for i, node in enumerate(program.nodes):
        if node.op == "input" or i not in live:
            continue
        if node.op == "const":
            value = literal(node.attrs["value"])
        else:
            value = expression(node, [(spelling[a], program.nodes[a]) for a in node.args])
        yield from _assignment(node, spelling[i], value)


def _spellings(program: Program) -> list[str]:
    """How each node is written where it is read."""
    spelled = []
    for i, node in enumerate(program.nodes):
        if node.name is not None:
            spelled.append(identifier(node.name))
        elif node.op == "const":
            spelled.append(literal(node.attrs["value"]))
        else:
            spelled.append(f"t{i}")
    return spelled


def _assignment(node: Node, name: str, value: str) -> Iterator[str]:
    if node.op == "const" and node.name is None:
        return  # written where it is read
    if node.op == "assume" and node.attrs["reason"] != "another name":
        yield f"    // {node.attrs['reason']}\n"
    yield f"    const {type_of(node.interval)} {name} = {value};"
    yield f"  // {interval_text(node.interval)}\n"
    if node.name is not None:
        yield f"    signals.{name} = {name};\n"
