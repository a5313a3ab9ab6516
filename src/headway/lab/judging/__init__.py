"""What a run says: evidence, verdicts, findings, and two runs beside each other. Nothing here launches or prints."""

__all__: list[str] = []
