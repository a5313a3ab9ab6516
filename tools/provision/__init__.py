"""What the tests and the benchmarks need beside Python packages: programs of the distribution, environments.

Each module that adds something is a command: `python -m provision.spin`, with tools/ on the path, as in the Makefile.
"""
