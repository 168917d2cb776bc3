"""The user's own ROM, read from a file once and kept in the spec."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.segments import Segments
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.rom_file import RomContents, read_rom
from approxnorm.tables.table import Table
from approxnorm.tables.target import RSQRT, Target


@RSQRT_METHODS.register
class FileTable(FunctionMethod):
    """f(m) ~ T[{octave bit, fraction's top ``index_bits`` bits}], T from a file.

    path: relative to the spec's file, never outside its folder. ``.mem`` and ``.hex`` as
        $readmemh reads them, ``.coe``, ``.txt`` (one decimal a line), ``.npy`` (integers).
    width: bits of a word in the file. bits: fraction bits of an entry, which is the output.
    signed: words are two's complement.
    entries and sha256 are filled in when the file is read; a resolved spec stands on its own,
    and ``path`` may then be absent.
    """

    method: Literal["file"] = "file"
    path: str | None = None
    index_bits: int = Field(default=8, ge=0, le=16)  # an octave
    bits: int = Field(default=15, ge=0, le=30)
    width: int = Field(default=16, ge=1, le=32)
    signed: bool = False
    entries: tuple[int, ...] | None = Field(default=None, strict=False)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    summary: ClassVar[str] = "your own ROM from a .mem, .hex, .coe, .txt or .npy file"
    folds_constant: ClassVar[bool] = False

    def loaded(self, folder: Path) -> Self:
        """The method with the file's entries; needs no file if it has them already.

        With both a path and a sha256, the file must have that digest. Raises ApproxNormError
        that names the file.
        """
        if self.path is None or (self.entries is not None and not (folder / self.path).exists()):
            return self
        contents = read_rom(folder, self.path, self.width, self.signed, "rsqrt.path")
        self._check_digest(contents)
        self._check_count(contents.entries, self.path)
        return self.model_copy(update={"entries": contents.entries, "sha256": contents.sha256})

    def resolved(self) -> Self:
        """frac_bits: index_bits; out_bits: bits. The file must have been read."""
        if self.entries is None:
            raise ApproxNormError(
                f"rsqrt.path is {self.path!r} and its file has not been read; load the spec from "
                "a file beside it, call loaded(folder), or give rsqrt.entries"
            )
        self._check_count(self.entries, "rsqrt.entries")
        self._check_range(self.entries)
        frac_bits = self.index_bits if self.frac_bits is None else self.frac_bits
        Segments.check(self.index_bits, frac_bits)
        if self.out_bits not in (None, self.bits):
            raise ApproxNormError(
                f"rsqrt.out_bits is {self.out_bits}; an entry is the output, so leave it out or "
                f"give rsqrt.bits, {self.bits}"
            )
        return self.model_copy(update={"frac_bits": frac_bits, "out_bits": self.bits})

    def _check_digest(self, contents: RomContents) -> None:
        if self.sha256 is not None and self.sha256 != contents.sha256:
            raise ApproxNormError(
                f"{self.path}: its SHA-256 is {contents.sha256}, but rsqrt.sha256 is "
                f"{self.sha256}; restore the file, or drop rsqrt.sha256 and rsqrt.entries"
            )

    def _check_count(self, entries: tuple[int, ...], where: str | None) -> None:
        need = 2 << self.index_bits
        if len(entries) != need:
            raise ApproxNormError(
                f"{where}: {len(entries)} words found; rsqrt.index_bits = {self.index_bits} needs "
                f"{need} (two octaves of {need // 2})"
            )

    def _check_range(self, entries: tuple[int, ...]) -> None:
        low = -(1 << (self.width - 1)) if self.signed else 0
        high = (1 << (self.width - self.signed)) - 1
        if bad := [e for e in entries if not low <= e <= high]:
            raise ApproxNormError(
                f"rsqrt.entries has {bad[0]}; width = {self.width} allows {low} to {high}"
            )

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)
        return self._stage(_table(self))

    def _stage(self, table: Table) -> StageFunction:
        segments = Segments(self.index_bits, self.f)

        def stage(octave: Any, frac: Any) -> Any:
            return ops.lookup(table, segments.index(octave, frac, RSQRT))

        return stage


@lru_cache(maxsize=16)
def _table(method: FileTable) -> Table:
    assert method.entries is not None
    rule = Segments(method.index_bits, method.f).index_rule(RSQRT)
    digest = method.sha256
    origin = f"file {method.path}, sha256 {digest}" if digest else "the spec's entries"
    table = Table("rsqrt_table", method.entries, method.bits, rule, origin=origin)
    return with_bound([table], method._stage(table), RSQRT, method.f, method.o)[0]
