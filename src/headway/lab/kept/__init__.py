"""Keeps a run: its settings, cells, launches and predictions in a store, and the run read back as a value."""

__all__: list[str] = []
