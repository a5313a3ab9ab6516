"""Packages as users get them: built for an old C library, checked, and tried in clean environments.

`python -m dist.build` builds, `python -m dist.environments` tries them in virtual environments, `python -m dist.systems`
in other distributions; each with tools/ on the path, as in the Makefile.
"""
