"""Fixtures for commands on ONNX models; other test files have their own of these names."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_models import Cli, write_block

from approxnorm.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with ``model.onnx`` and inputs for it."""
    monkeypatch.chdir(tmp_path)
    write_block(tmp_path)
    return tmp_path


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command: its exit status, and what it printed on stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run
