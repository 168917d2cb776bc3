"""All source files of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit.bench import bench_config
from approxnorm.hls_ref.emit.headers import (
    datapath_header,
    params_header,
    tables_header,
    top_header,
    trace_header,
)
from approxnorm.hls_ref.emit.kernel import TOP, Kernel
from approxnorm.hls_ref.emit.ports import channel_width
from approxnorm.hls_ref.emit.skeleton import skeleton
from approxnorm.hls_ref.emit.source import top_source
from approxnorm.model import RMSNorm
from approxnorm.rmsnorm import ports_datapath

MAX_BEAT_BITS = 1024  # of an ap_uint, unless everybody who includes its header raises that


def emit_kernel(
    model: RMSNorm, lanes: int = 8, *, top: str = TOP, residual: bool = False
) -> dict[str, str]:
    """Every source file of the kernel by its path in a project: ``kernel/…`` and ``tb/…``.

    lanes: elements a beat; it need not divide dim. top: the name of the function. residual: the
    kernel adds a second stream to x first, and writes the sums out as well.

    Raises ApproxNormError for the exact yardstick, which has no hardware, and for lanes of which a
    beat would pass 1024 bits.
    """
    datapath = model.assembly.require_datapath()
    return kernel_files(Kernel({"": model}, datapath, model.dim, lanes, top, False, residual))


def emit_ports_kernel(
    models: Mapping[str, RMSNorm],
    lanes: int = 8,
    *,
    max_dim: int | None = None,
    top: str = TOP,
    residual: bool = False,
) -> dict[str, str]:
    """The same of one kernel for several layers: gamma, eps, constant, shifts, step and row length
    are run-time ports, tables are shared.

    max_dim: the longest row; absent, the longest of the layers. Raises ApproxNormError if a layer
    has a table of its own (normalize.constant = "table"), differs from the first in what is no
    port, or has a number that its port cannot hold.
    """
    return kernel_files(ports_kernel(models, lanes, max_dim=max_dim, top=top, residual=residual))


def ports_kernel(
    models: Mapping[str, RMSNorm],
    lanes: int,
    *,
    max_dim: int | None = None,
    top: str = TOP,
    residual: bool = False,
) -> Kernel:
    """The kernel that serves all of these layers; errors as of ``emit_ports_kernel``."""
    longest = max(m.dim for m in models.values())
    dim = longest if max_dim is None else max_dim
    if dim < longest:
        raise ApproxNormError(f"max_dim is {dim}; allowed: {longest} or more, as a layer has it")
    kernels = [
        Kernel({name: model}, ports_datapath(model.spec, dim), dim, lanes, top, True, residual)
        for name, model in models.items()
    ]
    for kernel in kernels:
        _check_alike(kernels[0], kernel)
        _check_registers(kernel)
    first = kernels[0]
    return Kernel(dict(models), first.datapath, dim, lanes, top, True, residual)


def _check_alike(first: Kernel, other: Kernel) -> None:
    if first.digest == other.digest:
        return
    (one, a), (two, b) = (next(iter(k.layers.items())) for k in (first, other))
    differing = _differences(a.spec, b.spec)
    raise ApproxNormError(
        f"layers {one} and {two} differ in what is no run-time port:"
        f" {', '.join(differing) or 'their tables'}; give each its own kernel, or one value"
    )


# What may differ between the layers of a kernel with run-time ports.
_PORTED = {"dim", "eps", "eps_guard", "x.scale", "gamma.scale", "y.scale", "description"} | {
    f"statistic.{n}" for n in ("step_exponent", "step_offset", "input_shift", "bias", "count")
}


def _differences(a: BaseModel, b: BaseModel, where: str = "") -> list[str]:
    """Fields that differ between two specs; of two methods, the method."""
    if type(a) is not type(b):
        return [f"{where}method"]
    found = []
    for key in type(a).model_fields:
        name, one, two = f"{where}{key}", getattr(a, key), getattr(b, key)
        if isinstance(one, BaseModel) and isinstance(two, BaseModel):
            found += _differences(one, two, f"{name}.")
        elif one != two and name not in _PORTED:
            found.append(name)
    return found


def _check_registers(kernel: Kernel) -> None:
    (name, model), *_ = kernel.layers.items()
    own = model.assembly.require_datapath().settings
    for port in kernel.registers:
        value, interval = own[port.name], port.interval
        if value not in interval:
            raise ApproxNormError(
                f"layer {name}: {port.name} is {value}; the kernel's run-time port holds"
                f" {interval.lo} to {interval.hi}; give the layer its own kernel"
            )


def _check_lanes(kernel: Kernel) -> None:
    ports = kernel.datapath.ports
    widths = [ports[name].interval.width for name in ("x", kernel.datapath.output)]
    if kernel.ports:
        widths.append(channel_width(kernel))
    most = MAX_BEAT_BITS // max(widths)
    if not 1 <= kernel.lanes <= most:
        raise ApproxNormError(
            f"lanes is {kernel.lanes}; allowed: 1 to {most}, as a beat has at most {MAX_BEAT_BITS}"
            f" bits and a lane of this kernel takes {max(widths)}"
        )


def kernel_files(kernel: Kernel) -> dict[str, str]:
    """Every source file by its path; ApproxNormError for lanes that make no beat."""
    _check_lanes(kernel)
    return {
        f"kernel/{kernel.top}.hpp": top_header(kernel),
        f"kernel/{kernel.top}.cpp": top_source(kernel),
        "kernel/params.hpp": params_header(kernel),
        "kernel/tables.hpp": tables_header(kernel),
        "kernel/datapath.hpp": datapath_header(kernel),
        "kernel/trace.hpp": trace_header(kernel),
        "kernel/approx/ops.hpp": skeleton("approx/ops.hpp"),
        "tb/driver.hpp": skeleton("driver.hpp"),
        "tb/bench_config.hpp": bench_config(kernel),
    }
