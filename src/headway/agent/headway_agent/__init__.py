"""The agent: one launch of one cell, inside the measured interpreter.

Reading order: `worker` (the launch), `model` (how tasks are run), `subinterpreters` (our adapter), `workloads/` (the
workloads), `proc` (the kernel's counts), `limits` (the C library). Python 3.8 syntax, standard library only.
"""
