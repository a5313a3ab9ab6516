"""A run of the lab in words, tables and JSON."""

__all__: list[str] = []
