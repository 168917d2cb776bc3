"""The JSON schema accepts what the spec accepts, and refuses what it refuses."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import jsonschema
import pytest

from approxnorm import ApproxNormError, RMSNormSpec, preset_names
from approxnorm.spec.schema import json_schema

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
GOOD: dict[str, Any] = {
    "norm": "rmsnorm",
    "dim": 576,
    "eps": 1e-5,
    "x": "ap_fixed<16,8>",
    "gamma": {"bits": 8, "signed": True, "scale": 0.0031},
    "y": "ap_fixed<8,4,RND_CONV,SAT>",
    "statistic": {"method": "full"},
    "rsqrt": {"method": "linear", "segments": 8, "bits": 11},
    "normalize": {"method": "multiply"},
}
BAD: list[dict[str, Any]] = [
    {"norm": "layernorm"},
    {"dim": 0},
    {"eps": -1},
    {"x": "fixed<16,8>"},
    {"x": {"bits": 40}},
    {"statistic": {"method": "ful"}},
    {"statistic": {}},
    {"rsqrt": {"method": "linear", "segmnts": 8}},
    {"rsqrt": {"method": "linear", "bits": "11"}},
    {"colour": "red"},
]


def test_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid(name: str) -> None:
    text = resources.files("approxnorm.spec.presets").joinpath(f"{name}.toml").read_text("utf-8")
    VALIDATOR.validate(tomllib.loads(text))


def test_accepts_the_good_one() -> None:
    VALIDATOR.validate(GOOD)
    RMSNormSpec(**GOOD)


@pytest.mark.parametrize("change", BAD, ids=str)
def test_refuses_what_the_spec_refuses(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(GOOD | change)
    with pytest.raises(ApproxNormError):
        RMSNormSpec(**GOOD | change)
