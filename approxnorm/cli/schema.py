"""``approxnorm schema``: the JSON schema of a spec file, for editors and generators."""

from __future__ import annotations

from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json


def schema(json: JsonOption = True) -> None:
    """Print the JSON schema of a spec file, every method's fields included."""
    from approxnorm.spec.schema import json_schema

    print_json(json_schema())
