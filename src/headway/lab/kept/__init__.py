"""What a run leaves: its settings, cells and launches in a store, and the run read back as a value."""

__all__: list[str] = []
