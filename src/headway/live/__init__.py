"""Start and stop the recording of the GIL: in this process, in a launched program, or in a running one.

A recording gives a trace (headway.traces). Imports traces, native and, for the code inside the traced interpreter,
agent.
"""

__all__: list[str] = []
