"""A copy of a model to match patterns on: with types, and without Casts and Identities."""

from collections.abc import Iterator

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from approxnorm.export.norms.constants import Constants

FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)

_ALL, _FIRST, _SECOND = slice(None), slice(0, 1), slice(1, 2)

# Which inputs have the type of the first output. What shape inference does not know (other domains'
# operators) is told by the values that it is combined with.
SAME_TYPE: dict[str, slice] = {
    "Add": _ALL,
    "Div": _ALL,
    "MatMul": _ALL,
    "Mul": _ALL,
    "Pow": _FIRST,
    "Reciprocal": _FIRST,
    "ReduceL2": _FIRST,
    "ReduceMean": _FIRST,
    "ReduceSum": _FIRST,
    "ReduceSumSquare": _FIRST,
    "Reshape": _FIRST,
    "SimplifiedLayerNormalization": _SECOND,  # gamma's: x may have another
    "SkipSimplifiedLayerNormalization": _ALL,
    "Sqrt": _FIRST,
    "Sub": _ALL,
    "Transpose": _FIRST,
}


class View:
    """The copy; its values have the names that they have in the model.

    In `graph` nobody reads a Cast between floating-point types, or an Identity, any more: their
    readers read what goes into them. The nodes themselves are still there, and so are those whose
    input is a constant: they belong to the constant.
    """

    def __init__(self, model: onnx.ModelProto, constants: Constants) -> None:
        self.model = typed(model)
        self.graph = self.model.graph
        self.position = {id(node): place for place, node in enumerate(self.graph)}
        self.values = {value.name: value for value in all_values(self.graph)}
        self.aliases = look_through(self.graph, constants)

    def dtype(self, name: str) -> ir.DataType | None:
        """The type of a value of the main graph; None if it is not known."""
        value = self.values.get(name)
        return value.dtype if value is not None else None

    def read_once(self, value: ir.Value) -> bool:
        """Whether one node of the view reads a value, and it is no output of the graph."""
        same = [value, *self.aliases.get(value, ())]
        if any(each.is_graph_output() for each in same):
            return False
        return len([user for user, _ in value.uses() if not is_alias(user, self.aliases)]) == 1


def typed(model: onnx.ModelProto) -> ir.Model:
    """The model as a new ir.Model with all types and shapes that can be inferred."""
    copy = ir.serde.deserialize_model(model)
    more = True
    while more:  # past each operator that inference does not know it may go on
        ShapeInferencePass(check_type=False, strict_mode=False)(copy)
        more = spread_types(copy.graph)
    return copy


def spread_types(graph: ir.Graph) -> bool:
    """Give values of unknown type that of what they must share it with; whether any got one."""
    nodes = [node for node in graph if node.op_type in SAME_TYPE]
    changed, found = True, False
    while changed:
        changed = False
        for node in nodes:
            inputs = node.inputs[SAME_TYPE[node.op_type]]
            tied = [value for value in (*inputs, *tied_outputs(node)) if value is not None]
            known = {value.dtype for value in tied if value.dtype is not None}
            if len(known) == 1 and any(value.dtype is None for value in tied):
                changed = found = True
                for value in tied:
                    value.dtype = next(iter(known))
    return found


def tied_outputs(node: ir.Node) -> list[ir.Value]:
    """The outputs that have the type of the inputs: of a Skip norm, not the statistics."""
    return [value for index, value in enumerate(node.outputs) if index in (0, 3)]


def name_of(value: ir.Value) -> str:
    """The name of a value that is one of the model's, hence has one."""
    assert value.name is not None, "a value without a name"
    return value.name


def all_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every named value of one graph."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def look_through(
    graph: ir.Graph | ir.Function, constants: Constants | None
) -> dict[ir.Value, list[ir.Value]]:
    """Let readers of Casts and Identities read what goes in; gives which values are now which.

    Without constants (in a subgraph or a function, where types may be unknown) every Cast to a
    floating-point type is looked through.
    """
    aliases: dict[ir.Value, list[ir.Value]] = {}
    for node in graph:
        source = node.inputs[0] if node.inputs else None
        if source is None or not is_transparent(node, source, constants):
            continue
        output = node.outputs[0]
        for user, index in tuple(output.uses()):
            user.replace_input_with(index, source)
        aliases.setdefault(source, []).append(output)
    return aliases


def is_transparent(node: ir.Node, source: ir.Value, constants: Constants | None) -> bool:
    """Whether a node hands a floating-point value on, maybe in another precision."""
    if node.domain != "" or node.op_type not in ("Cast", "Identity"):
        return False
    if constants is not None and source.name in constants:
        return False
    if node.op_type == "Identity":
        return True
    known = source.dtype in FLOATS or (constants is None and source.dtype is None)
    return known and ir.DataType(node.attributes["to"].as_int()) in FLOATS


def is_alias(node: ir.Node, aliases: dict[ir.Value, list[ir.Value]]) -> bool:
    """Whether a node is one that is looked through."""
    source = node.inputs[0] if node.inputs else None
    return source is not None and node.outputs[0] in aliases.get(source, ())
