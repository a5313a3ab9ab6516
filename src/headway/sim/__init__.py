"""A machine in virtual time: the costs of its operations, the programs that run on it, and the results."""

__all__: list[str] = []
