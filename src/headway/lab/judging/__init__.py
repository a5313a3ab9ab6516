"""Judges a run: evidence, verdicts, findings, and comparisons of runs. Nothing here launches or prints."""

__all__: list[str] = []
