"""What is on this machine: interpreters, cores, folders, processes and their end. Knows nothing of experiments."""

__all__: list[str] = []
