"""From a plan to launches: what comes next, one fresh process after another, each stored before the next begins."""

__all__: list[str] = []
