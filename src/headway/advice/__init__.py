"""Advises on a concurrency model for a user's function: cheap questions, then launches of the lab, then a verdict.

`door.advise` is the interface for Python; `course.advise` does the work. The other modules are:

- `target` names the function, and `examined` has the answers to the cheap questions.
- `racing` runs the models against each other, and `break_even` finds where a pool begins to pay.
- `verdict` decides, `cores` asks the simulator, and `code` writes the code to paste.
- `values` has the results.
"""

__all__: list[str] = []
