"""Readable names for norms, from what exporters leave in a graph."""

import ast

import onnx_ir as ir

SCOPES = "pkg.torch.onnx.name_scopes"
_LONGEST = 1 << 12  # characters of scopes; no module lies deeper, but files may hold anything
PARAMETER_ENDS = (".weight", ".scale", ".gamma", "/weight", "/scale", "/gamma")


class Names:
    """Gives each norm of a model a name that no other norm has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        """The name, or the first with a number that is not taken."""
        number, free = 1, name
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free)
        return free

    def give(self, node: ir.Node, parameters: list[str]) -> str:
        """A name for the norm whose last node this is and whose gamma has these initializers."""
        name = module(node) or path(node.name or "") or parameter(parameters) or node.name
        # A NUL ends a name in a zip file, and a newline a line of a table.
        printable = "".join(c if c.isprintable() else "_" for c in name or "")
        return self.unique(printable or f"norm_{len(self._taken) + 1}")


def module(node: ir.Node) -> str | None:
    """The torch module that a node comes from, as torch's dynamo exporter notes it."""
    text = node.metadata_props.get(SCOPES, "[]")
    try:
        scopes = ast.literal_eval(text) if len(text) <= _LONGEST else None
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError):
        return None
    inner = scopes[-2:-1] if isinstance(scopes, list) else []
    return inner[0] if inner and isinstance(inner[0], str) and inner[0] else None


def path(name: str) -> str | None:
    """`layers.0.norm` of a node called `/layers.0/norm/Mul_1`: TorchScript's exporter's names."""
    scopes = name.strip("/").split("/")[:-1]
    return ".".join(scopes) if scopes else None


def parameter(names: list[str]) -> str | None:
    """`layers.0.norm` of a gamma called `layers.0.norm.weight`."""
    for name in names:
        for end in PARAMETER_ENDS:
            if name.endswith(end) and len(name) > len(end):
                return name.removesuffix(end).strip("/").replace("/", ".")
    return None
