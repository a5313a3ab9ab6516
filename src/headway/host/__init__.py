"""Interpreters, cores, folders, processes and their end on this machine. The package knows nothing of experiments."""

__all__: list[str] = []
