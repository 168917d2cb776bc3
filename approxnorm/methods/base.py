"""What every method is: a frozen set of fields, validated, with a name that a spec gives."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny, model_validator

from approxnorm.errors import ApproxNormError

MAX_SHOWN = 120


class Fields(BaseModel):
    """A frozen, strict part of a spec: unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise ApproxNormError(unknown_key(str(key), list(cls.model_fields)))
        return data


def shown(value: Any) -> str:
    """What was found, for a message: its repr, cut to a readable length."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits, which Python refuses to print
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else "..."
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def unknown_key(key: str, allowed: list[str]) -> str:
    """The sentence for a misspelt key, with the nearest allowed one."""
    near = difflib.get_close_matches(key, allowed, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown key {shown(key)}; {hint}allowed: {', '.join(allowed)}"


class Method(Fields):
    """A named choice within a spec; the subclass fixes ``method`` with a Literal."""

    method: str
    summary: ClassVar[str] = ""  # one line for listings
    source: ClassVar[str] = ""  # paper or section, where there is one


M = TypeVar("M", bound=Method)


class Registry(Generic[M]):
    """Methods of one kind by name. A file adds its method with ``@REGISTRY.register``."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._methods: dict[str, type[M]] = {}
        self._loaded = False

    def register(self, cls: type[M]) -> type[M]:
        name = cls.model_fields["method"].default
        if not isinstance(name, str) or name in self._methods:
            raise AssertionError(f"{cls.__name__} needs a new method name as its default")
        self._methods[name] = cls
        return cls

    def remove(self, name: str) -> None:
        """Take a method out again: for one that was registered for a trial."""
        del self._methods[name]

    def names(self) -> list[str]:
        self._load()
        return sorted(self._methods)

    def get(self, name: Any) -> type[M]:
        """The class of a method; ApproxNormError that lists the names if there is none."""
        self._load()
        if not isinstance(name, str) or name not in self._methods:
            raise ApproxNormError(
                f"{self.kind}.method is {shown(name)}; allowed: {', '.join(self.names())}"
            )
        return self._methods[name]

    def parse(self, data: Any) -> Any:
        """A method from a spec's table; its ``method`` key picks the class."""
        if isinstance(data, Method):
            return data
        if not isinstance(data, dict) or "method" not in data:
            raise ApproxNormError(
                f"found {shown(data)}; allowed: a table with method = one of"
                f" {', '.join(self.names())}"
            )
        return self.get(data["method"]).model_validate(data)

    def items(self) -> list[tuple[str, type[M]]]:
        """Names and classes, by name."""
        return [(name, self._methods[name]) for name in self.names()]

    def __iter__(self) -> Iterator[type[M]]:
        return iter(self._methods[n] for n in self.names())

    def _load(self) -> None:
        """Import every file of the package, so that a new one needs no list to be edited."""
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._loaded = True


def method_field(cls: type[M], registry: Registry[M]) -> Any:
    """The type of a spec's field that holds a method of ``registry``."""
    return Annotated[SerializeAsAny[cls], BeforeValidator(registry.parse)]  # type: ignore[valid-type, misc]
