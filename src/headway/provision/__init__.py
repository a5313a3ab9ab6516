"""Add interpreters that this machine lacks: uv's builds, or the distribution's packages in a private prefix.

Nothing is installed system-wide. Callers use `door`; `packaged` and `built` describe how each interpreter is made.
"""

from headway.provision.archive import ProvisionError
from headway.provision.door import BUILT, DISTRIBUTED, add, has_tests, lacks_tests, may_have_tests

__all__ = ["BUILT", "DISTRIBUTED", "ProvisionError", "add", "has_tests", "lacks_tests", "may_have_tests"]
