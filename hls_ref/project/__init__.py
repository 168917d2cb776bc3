"""The project that ``approxnorm export hls`` writes: kernel, bench, vectors, scripts, README."""

from approxnorm.hls_ref.project.arguments import CLOCK_NS, PART, TOP
from approxnorm.hls_ref.project.write import Project, Replayed, write_ports_project, write_project

__all__ = ["CLOCK_NS", "PART", "TOP", "Project", "Replayed", "write_ports_project", "write_project"]
