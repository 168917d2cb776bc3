"""Which of a model's norms are taken: all, or those that --only and --skip leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Findings, Norm

_LISTED = 30


def select_norms(
    findings: Findings, only: Sequence[str], skip: Sequence[str], path: Path
) -> tuple[list[Norm], list[str]]:
    """The norms taken, and the names of those left out, in the order of the graph.

    only, skip: names or patterns with *, ? and [...]; only empty: all. Raises ApproxNormError if
    there is no norm at all, a pattern matches nothing, one of only matches nothing but what cannot
    be taken, or nothing is left.
    """
    if not findings.norms:
        raise ApproxNormError(f"{path} has no RMSNorm that can be taken{_refused(findings)}")
    for pattern in only:
        _check_only(pattern, findings, path)
    for pattern in skip:
        if not _matching(pattern, _all_names(findings)):
            raise _matches_nothing("--skip", pattern, findings, path)
    names = [norm.name for norm in findings.norms]
    wanted = {n for p in only for n in _matching(p, names)} if only else set(names)
    wanted -= {n for p in skip for n in _matching(p, names)}
    if not wanted:
        raise ApproxNormError(
            f"{path}: --only and --skip leave no norm; allowed names: {_listed(names)}"
        )
    taken = [norm for norm in findings.norms if norm.name in wanted]
    return taken, [name for name in names if name not in wanted]


def _check_only(pattern: str, findings: Findings, path: Path) -> None:
    if _matching(pattern, (norm.name for norm in findings.norms)):
        return
    reasons = {u.name: u.reason for u in findings.unrecognised}
    refused = _matching(pattern, reasons)
    if not refused:
        raise _matches_nothing("--only", pattern, findings, path)
    raise ApproxNormError(
        f"{path}: --only is {pattern!r}, but {refused[0]} is left alone: {reasons[refused[0]]};"
        f" allowed: {_listed(norm.name for norm in findings.norms)}"
    )


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name == pattern or fnmatchcase(name, pattern)]


def _all_names(findings: Findings) -> list[str]:
    return [norm.name for norm in findings.norms] + [u.name for u in findings.unrecognised]


def _matches_nothing(option: str, pattern: str, findings: Findings, path: Path) -> ApproxNormError:
    names = _listed(norm.name for norm in findings.norms)
    return ApproxNormError(f"{path}: {option} {pattern!r} matches no norm; allowed: {names}")


def _refused(findings: Findings) -> str:
    """What there is instead."""
    found = [f"{u.name} is left alone: {u.reason}" for u in findings.unrecognised]
    if findings.layernorms:
        found.append(f"LayerNorms, which are left alone: {findings.layernorms}")
    return f" ({_joined(found, '; ')})" if found else "; give a model with RMSNorms"


def _listed(names: Iterable[str]) -> str:
    return _joined(list(names), ", ")


def _joined(texts: list[str], by: str) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return by.join(texts[:_LISTED]) + more
