"""Learns a model of a program from its trace: what each thread does between calls, its calls, and who wakes whom."""

__all__: list[str] = []
