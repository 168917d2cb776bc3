"""``approxnorm show``: what a spec becomes in hardware."""

from __future__ import annotations

from typing import Any

from approxnorm.cli.options import (
    DimOption,
    GammaOption,
    InputOption,
    JsonOption,
    LayerOption,
    SpecArgument,
)
from approxnorm.cli.output import integer, print_json, print_line, print_table, print_tables


def show(
    spec: SpecArgument,
    dim: DimOption = None,
    gamma: GammaOption = None,
    input: InputOption = None,
    layer: LayerOption = None,
    json: JsonOption = False,
) -> None:
    """Show every signal, table and number of a spec.

    Open scales are calibrated on --input; without it they are nominal, and said to be.
    """
    shown = describe(spec, dim, gamma, input, layer)
    if json:
        print_json(shown)
    else:
        _print(shown)


def describe(source: str, dim: Any, gamma_path: Any, input_path: Any, layer: Any) -> dict[str, Any]:
    """What ``show --json`` prints."""
    from approxnorm.cli.models import (
        check_layer_option,
        model_of_spec,
        read_gamma,
        spec_of_dim,
    )
    from approxnorm.cli.nominal import nominal
    from approxnorm.spec import load_spec

    check_layer_option(layer, input_path)
    spec, gamma = load_spec(source), read_gamma(gamma_path)
    if input_path is not None:
        return _of_input(source, spec_of_dim(spec, dim, None), gamma, input_path, layer)
    spec, notes = nominal(spec_of_dim(spec, dim, gamma))
    model = model_of_spec(spec, gamma)
    if notes:
        return _describe(source, model, "nominal", notes, None, False)
    digest = model.assembly.digest() if gamma is None else model.digest
    return _describe(source, model, "spec", notes, digest, gamma is not None)


def _of_input(source: str, spec: Any, gamma: Any, path: Any, name: Any) -> dict[str, Any]:
    from approxnorm.cli.models import model_of_layer, pick_layer
    from approxnorm.layer_model import with_gamma

    layer, notes = with_gamma(pick_layer(path, name), gamma)
    model, more = model_of_layer(spec, layer)
    return _describe(source, model, "input", notes + more, model.digest, True)


def _describe(
    source: str, model: Any, scales: str, notes: list[str], digest: str | None, with_gamma: bool
) -> dict[str, Any]:
    """scales: where open numbers came from: "spec" (none was open), "input" or "nominal"."""
    from approxnorm.metrics import bound
    from approxnorm.run.stages import hardware_summary, signal_list

    is_hardware = model.assembly.datapath is not None
    hardware: dict[str, Any] = {"rsqrt": None, "multipliers": None, "tables": []}
    if is_hardware:
        hardware = hardware_summary(model)
        hardware["rsqrt"].pop("curve")
    return {
        "spec_name": source,
        "description": model.spec.description,
        "dim": model.dim,
        "scales": scales,
        "notes": notes,
        "digest": digest,
        "digest_covers_gamma": with_gamma,
        "formats": {
            "x": str(model.assembly.x_format),
            "gamma": str(model.assembly.context.gamma),
            "y": str(model.assembly.context.y),
        },
        "signals": signal_list(model) if is_hardware else [],
        "table_bits": sum(t["bits"] for t in hardware["tables"]),
        **hardware,
        "bound": bound(model).to_dict() if with_gamma else None,
        "spec": model.spec.to_dict(),
    }


def _print(shown: dict[str, Any]) -> None:
    print_line(f"{shown['spec_name']} at dim {shown['dim']}", bold=True)
    if shown["description"]:
        print_line(shown["description"])
    _print_scales(shown)
    for name, form in shown["formats"].items():
        print_line(f"{name.ljust(5)} {form}", indent=2)
    if not shown["signals"]:
        print_line('rsqrt.method "exact" is the NumPy model\'s yardstick: it has no hardware.')
    else:
        _print_hardware(shown)
    if shown["bound"] is not None:
        print_line(f"Proven worst case: {shown['bound']['text']}")
    print_line("\nResolved spec (JSON)", bold=True)
    _print_spec(shown["spec"])
    _print_digest(shown)


def _print_scales(shown: dict[str, Any]) -> None:
    if shown["scales"] == "nominal":
        print_line("Nominal, not calibrated (give --input FILE):")
    elif shown["notes"]:
        print_line("Calibrated:")
    for note in shown["notes"]:
        print_line(note, indent=2)
    print_line("\nFormats", bold=True)


def _print_hardware(shown: dict[str, Any]) -> None:
    print_line()
    print_table(
        "Signals",
        ("name", "level", "type", "bits", "lowest", "highest"),
        [
            (s["name"], s["level"], s["type"], s["width"], integer(s["lo"]), integer(s["hi"]))
            for s in shown["signals"]
        ],
        left=3,
    )
    print_tables(shown["tables"])
    print_line(f"Table bits: {shown['table_bits']}")
    multipliers = shown["multipliers"]
    print_line(f"Multipliers: {multipliers['element']} an element, {multipliers['row']} a row")
    root = shown["rsqrt"]
    print_line(
        f"Root ({root['method']}): max relative error {root['max_rel']:.3e}"
        f" at m = {root['argmax']:.6g}, mean {root['mean_rel']:.1e}"
    )


def _print_spec(spec: dict[str, Any]) -> None:
    """One line a field: long lists stay on theirs."""
    from json import dumps

    lines = [f"  {dumps(key)}: {dumps(value)}" for key, value in spec.items()]
    print_line("{\n" + ",\n".join(lines) + "\n}")


def _print_digest(shown: dict[str, Any]) -> None:
    if shown["digest"] is None:
        print_line("\nDigest: none, as the numbers above are nominal")
        return
    covers = "spec, tables and gamma" if shown["digest_covers_gamma"] else "spec and tables"
    print_line(f"\nDigest ({covers}): {shown['digest']}")
