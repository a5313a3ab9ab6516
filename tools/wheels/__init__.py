"""Packages as users get them: built for an old C library, checked, and tried in clean environments.

`python -m wheels.build` builds, `python -m wheels.environments` tries them in virtual environments, `python -m wheels.systems`
in other distributions; each with tools/ on the path, as in the Makefile.
"""
