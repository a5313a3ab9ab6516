"""Carries out a plan: one fresh process after another, each launch stored before the next one begins."""

__all__: list[str] = []
