"""A model of a program from its trace: what each thread does between two calls, what its calls are, who wakes whom."""

__all__: list[str] = []
