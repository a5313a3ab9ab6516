"""The machine in virtual time: what its operations cost, what runs on it, and what that gives."""

__all__: list[str] = []
