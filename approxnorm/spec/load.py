"""Specs from files and presets by name."""

from __future__ import annotations

import difflib
import json
import stat
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown, unknown_key
from approxnorm.spec.rmsnorm_spec import RMSNormSpec

MAX_FILE_BYTES = 64 << 20


def preset_names() -> list[str]:
    """The names of the presets, sorted."""
    files = resources.files("approxnorm.spec.presets").iterdir()
    return sorted(f.name[: -len(".toml")] for f in files if f.name.endswith(".toml"))


def preset(name: str) -> RMSNormSpec:
    """A preset by name; ApproxNormError with the nearest name if there is none."""
    if name not in preset_names():
        raise ApproxNormError(unknown_key(name, preset_names()).replace("key", "preset", 1))
    text = resources.files("approxnorm.spec.presets").joinpath(f"{name}.toml").read_text("utf-8")
    return _parse(tomllib.loads(text), f"preset {name}", Path("."))


def load_spec(source: str | Path) -> RMSNormSpec:
    """A spec from a preset's name, or from a ``.toml`` or ``.json`` file.

    A ROM that the spec names (rsqrt method "file") is read from the spec's own folder.
    Raises ApproxNormError for a missing or malformed file and for any illegal field.
    """
    path = Path(source)
    if path.suffix not in (".toml", ".json"):
        if str(source) in preset_names():
            return preset(str(source))
        near = difflib.get_close_matches(str(source), preset_names(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ApproxNormError(
            f"SPEC is {shown(str(source))}; {hint}allowed: a .toml or .json file, or a preset:"
            f" {', '.join(preset_names())}"
        )
    return _parse(_read(path), str(path), path.parent)


def _read(path: Path) -> Any:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ApproxNormError(f"{path} is no regular file; give a .toml or .json file")
        if status.st_size > MAX_FILE_BYTES:
            raise ApproxNormError(f"{path} is larger than {MAX_FILE_BYTES} bytes; not a spec")
        text = path.read_text("utf-8-sig")
        if path.suffix == ".toml":
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_unique)
    except FileNotFoundError:
        raise ApproxNormError(f"{path}: no such file; give a spec file or a preset") from None
    except OSError as error:
        raise ApproxNormError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, ApproxNormError):
            raise
        kind = path.suffix[1:].upper()
        raise ApproxNormError(f"{path}: not valid {kind}: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, as TOML has tables: a key that comes twice is an error."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {shown(key)} comes twice")
        found[key] = value
    return found


def _parse(data: Any, source: str, folder: Path) -> RMSNormSpec:
    if not isinstance(data, dict):
        raise ApproxNormError(f"{source}: a spec is a table of fields, found {type(data).__name__}")
    try:
        spec = RMSNormSpec(**data)
        if hasattr(spec.rsqrt, "loaded"):  # a method that reads a file beside the spec
            spec = spec.replace(rsqrt=spec.rsqrt.loaded(folder))
        return spec
    except TypeError:
        raise ApproxNormError(f"{source}: field names are plain words") from None
    except ApproxNormError as error:
        raise ApproxNormError(f"{source}: {str(error).removeprefix('spec: ')}") from None
