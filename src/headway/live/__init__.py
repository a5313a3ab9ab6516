"""Start and stop the recording of the GIL: in this process, in a program that is launched, in one that runs.

What is recorded is a trace (headway.traces). Imports traces, native and, for what runs inside the traced interpreter,
agent.
"""

__all__: list[str] = []
