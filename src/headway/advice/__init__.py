"""Which concurrency model for a user's function: cheap questions first, then launches through the lab, then a verdict.

`door.advise` is the door of Python, and `course.advise` does it. `target` names the function, `examined` what the cheap questions gave, `racing` runs the models
against each other, `break_even` where a pool begins to pay, `verdict` decides, `cores` asks the simulator, `code` writes
what to paste; `values` are what comes out.
"""

__all__: list[str] = []
