"""The main job: real activations in, verified artefacts out."""

from approxnorm.run.job import run_job

__all__ = ["run_job"]
