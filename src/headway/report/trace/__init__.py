"""A trace in words and tables."""

__all__: list[str] = []
