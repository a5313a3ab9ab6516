"""Programs and environments that the tests and the benchmarks need beside Python packages.

Each module that adds a program is a command: `python -m provision.spin`, with tools/ on the path, as in the Makefile.
"""
