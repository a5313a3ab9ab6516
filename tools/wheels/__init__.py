"""Build packages for users against an old C library, check them, and try them in clean environments.

`python -m wheels.build` builds them, `python -m wheels.environments` tries them in virtual environments, and
`python -m wheels.systems` in other distributions; each with tools/ on the path, as in the Makefile.
"""
