"""Which packages there are and where they lie; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

# Top-level folders that are installed inside approxnorm, so that no package called `export` leaks.
ELSEWHERE = {"approxnorm.export": "export", "approxnorm.hls_ref": "hls_ref"}


def all_packages() -> list[str]:
    """Every folder with an __init__.py, under the name it is imported by."""
    names = find_packages(include=["approxnorm", "approxnorm.*"])
    for name, folder in ELSEWHERE.items():
        names += [name, *(f"{name}.{inner}" for inner in find_packages(folder))]
    return names


setup(packages=all_packages(), package_dir=ELSEWHERE)
