"""The JSON schema of a spec, for editors and other programs."""

from __future__ import annotations

from typing import Any

from approxnorm.methods.base import Registry
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.methods.normalizers import NORMALIZERS
from approxnorm.methods.statistics import STATISTICS
from approxnorm.spec.rmsnorm_spec import RMSNormSpec

_AP_FIXED = r"^ap_u?fixed<\s*[+-]?\d+\s*,\s*[+-]?\d+\s*(,\s*\w+\s*(,\s*\w+\s*)?)?>$"


def json_schema() -> dict[str, Any]:
    """Draft 2020-12: what ``RMSNormSpec`` accepts, with every registered method."""
    schema = RMSNormSpec.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    definitions: dict[str, Any] = schema["$defs"]
    registries: dict[str, Registry[Any]] = {
        "statistic": STATISTICS,
        "rsqrt": RSQRT_METHODS,
        "normalize": NORMALIZERS,
    }
    for field, registry in registries.items():
        schema["properties"][field] = {
            "oneOf": [
                _define(cls, f"{field}_{name}", definitions) for name, cls in registry.items()
            ]
        }
    text = {"type": "string", "pattern": _AP_FIXED}
    form = {"anyOf": [text, _define(FormatSpec, "format", definitions)]}
    for field in ("x", "gamma", "y"):
        schema["properties"][field] = form
    return schema


def _define(cls: Any, name: str, definitions: dict[str, Any]) -> dict[str, str]:
    """Put a class's schema among the definitions; its method's name is required there."""
    own = cls.model_json_schema(ref_template="#/$defs/{model}")
    definitions.update(own.pop("$defs", {}))
    if "method" in own["properties"]:
        own["required"] = sorted({*own.get("required", []), "method"})
    definitions[name] = own
    return {"$ref": f"#/$defs/{name}"}
