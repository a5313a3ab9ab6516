"""Interpreters that this machine lacks: uv's builds, or the distribution's packages in a private prefix.

Nothing is installed system-wide. `door` is the way in; `packaged` and `built` say how each interpreter is made.
"""

from headway.provision.archive import ProvisionError
from headway.provision.door import BUILT, DISTRIBUTED, add, lacks_tests

__all__ = ["BUILT", "DISTRIBUTED", "ProvisionError", "add", "lacks_tests"]
