"""Where a model's norms are, and which of them are taken: all, or those that patterns leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import nn

from approxnorm.errors import ApproxNormError
from approxnorm.nn.probe import Norm
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.nn.registry import describe_norm
from approxnorm.spec import RMSNormSpec

_LISTED = 30


@dataclass(frozen=True)
class Left:
    """A module that is a norm, or is called one, and was left as it is."""

    name: str
    kind: str
    reason: str


@dataclass(eq=False)
class Place:
    """A module, all names of it, and the slots that it fills; and what it is."""

    module: nn.Module
    names: list[str] = field(default_factory=list)
    slots: list[tuple[nn.Module, str]] = field(default_factory=list)
    found: Norm | str | None = None

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def norm(self) -> Norm:
        assert isinstance(self.found, Norm)
        return self.found

    def matches(self, pattern: str) -> bool:
        return any(matches(name, pattern) for name in self.names)


def find_norms(model: nn.Module) -> list[Place]:
    """Every module that is a norm or has a reason why it is not taken, in the model's order.

    Raises ApproxNormError if none can be taken.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    done = tuple(f"{name}." for name, m in modules.items() if isinstance(m, QuantRMSNorm))
    places: dict[int, Place] = {}
    for name, module in modules.items():
        if not name or isinstance(module, QuantRMSNorm) or name.startswith(done):
            continue
        if "parametrizations" in name.split("."):  # weight_norm's own, say
            continue
        path, _, attribute = name.rpartition(".")
        place = places.setdefault(id(module), Place(module))
        place.names.append(name)
        place.slots.append((modules[path], attribute))
    for place in places.values():
        place.found = _describe(place)
    found = [place for place in places.values() if place.found is not None]
    if not any(isinstance(place.found, Norm) for place in found):
        raise ApproxNormError(_no_norm(model, found))
    return found


def _describe(place: Place) -> Norm | str | None:
    found = describe_norm(place.module)
    if isinstance(found, Norm) and any(_is_compiled(parent) for parent, _ in place.slots):
        return "it was compiled by itself; replace norms first, then compile"
    return found


def _is_compiled(parent: nn.Module) -> bool:
    """Whether torch.compile made it of the one module in it, whose code it has already taken."""
    return type(parent).__name__ == "OptimizedModule"


def _no_norm(model: nn.Module, found: Sequence[Place]) -> str:
    if isinstance(model, QuantRMSNorm) or any(isinstance(m, QuantRMSNorm) for m in model.modules()):
        return "the model's norms are QuantRMSNorm already; give a model with other RMSNorms"
    if isinstance(describe_norm(model), Norm):
        return "the model is a norm itself, which has no place to change; make a QuantRMSNorm"
    left = joined([f"{p.name} is left: {p.found}" for p in found], "; ")
    return f"the model has no RMSNorm that can be taken{f' ({left})' if left else ''}"


@dataclass(frozen=True)
class Patterns:
    """Which norms are taken and by which pattern; a pattern without effect is an error."""

    only: tuple[str, ...]
    skip: tuple[str, ...]
    per_layer: dict[str, RMSNormSpec | str]

    def select(self, found: Sequence[Place]) -> tuple[list[Place], list[Left]]:
        norms = [place for place in found if isinstance(place.found, Norm)]
        for option in ("only", "skip", "per_layer"):
            for pattern in getattr(self, option):
                _check_matches(option, pattern, found, norms)
        wanted = [p for p in norms if not self.only or any(p.matches(o) for o in self.only)]
        taken = [p for p in wanted if not any(p.matches(s) for s in self.skip)]
        if not taken:
            raise ApproxNormError(f"only and skip leave no norm; allowed: {_names(norms)}")
        self._check_used(taken)
        left = [Left(p.name, p.kind, self._reason(p, wanted)) for p in found if p not in taken]
        return taken, left

    def first(self, place: Place) -> str | None:
        return next((p for p in self.per_layer if place.matches(p)), None)

    def _check_used(self, taken: Sequence[Place]) -> None:
        used = {self.first(place) for place in taken}
        for pattern in self.per_layer:
            if pattern not in used and any(place.matches(pattern) for place in taken):
                raise ApproxNormError(
                    f"per_layer {pattern!r} has no norm of its own: the first pattern that"
                    " matches counts; put it before the wider ones"
                )

    def _reason(self, place: Place, wanted: Sequence[Place]) -> str:
        if isinstance(place.found, Norm):
            return "skip names it" if place in wanted else "only does not name it"
        return str(place.found)


def _check_matches(
    option: str, pattern: str, found: Sequence[Place], norms: Sequence[Place]
) -> None:
    if any(place.matches(pattern) for place in norms):
        return
    refused = next((place for place in found if place.matches(pattern)), None)
    if refused is None:
        raise ApproxNormError(f"{option} {pattern!r} matches no norm; allowed: {_names(norms)}")
    if option != "skip":
        raise ApproxNormError(
            f"{option} is {pattern!r}, but {refused.name} ({refused.kind}) is left alone:"
            f" {refused.found}; allowed: {_names(norms)}"
        )


def texts(option: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Patterns as a tuple, a lone text as one of them; ApproxNormError for what is no text."""
    listed = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    wrong = [p for p in listed if not isinstance(p, str)]
    if wrong:
        raise ApproxNormError(f"{option} holds {wrong[0]!r}; allowed: names or patterns")
    return listed


def _names(places: Sequence[Place]) -> str:
    return joined([place.name for place in places])


def matches(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, or fits it with *, ? and [...]."""
    return name == pattern or fnmatchcase(name, pattern)


def joined(texts: Sequence[str], by: str = ", ") -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return by.join(texts[:_LISTED]) + more
