"""What every method is: a frozen set of fields, validated, with a name that a spec gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from approxnorm.errors import ApproxNormError


class Fields(BaseModel):
    """A frozen, strict part of a spec: unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Method(Fields):
    """A named choice within a spec; the subclass fixes ``method`` with a Literal."""

    method: str
    summary: ClassVar[str] = ""  # one line for listings
    source: ClassVar[str] = ""  # paper or section, where there is one


M = TypeVar("M", bound=Method)


class Registry(Generic[M]):
    """Methods of one kind by name. A file adds its method with ``@REGISTRY.register``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._methods: dict[str, type[M]] = {}

    def register(self, cls: type[M]) -> type[M]:
        name = cls.model_fields["method"].default
        if not isinstance(name, str) or name in self._methods:
            raise AssertionError(f"{cls.__name__} needs a new method name as its default")
        self._methods[name] = cls
        return cls

    def names(self) -> list[str]:
        return sorted(self._methods)

    def get(self, name: Any) -> type[M]:
        """The class of a method; ApproxNormError that lists the names if there is none."""
        if name not in self._methods:
            raise ApproxNormError(
                f"{self.kind}.method is {name!r}; allowed: {', '.join(self.names())}"
            )
        return self._methods[name]

    def __iter__(self) -> Any:
        return iter(self._methods[n] for n in self.names())


StageBuilder = Callable[..., Any]
