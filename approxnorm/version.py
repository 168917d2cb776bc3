"""The package's version. Nothing is imported here: it is read when the package is built."""

__version__ = "0.1.0"
