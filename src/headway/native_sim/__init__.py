"""The simulator of the shared library: its specification and results as plain values, and its runs.

`Spec` and its parts have the names and the meaning of the C structs. They hold everything that is computed from a
scenario before a machine is made, so that it can be examined without one. Imports `headway.native` and errors.
"""

from headway.native_sim.simulation import Simulation, StandstillError, coldness
from headway.native_sim.spec import (
    CLOCKS,
    COSTS,
    GOES_ON,
    MAX_OPTIONS,
    OF_CLOCK,
    OF_DIST,
    OF_LOCK,
    OF_PORT,
    OP_DTYPE,
    Client,
    Gil,
    GilResult,
    Op,
    OpKind,
    Role,
    RoleResult,
    Spec,
)
from headway.native_sim.structs import EVENT_DTYPE, c_structs

__all__ = [
    "CLOCKS",
    "COSTS",
    "EVENT_DTYPE",
    "GOES_ON",
    "MAX_OPTIONS",
    "OF_CLOCK",
    "OF_DIST",
    "OF_LOCK",
    "OF_PORT",
    "OP_DTYPE",
    "Client",
    "Gil",
    "GilResult",
    "Op",
    "OpKind",
    "Role",
    "RoleResult",
    "Simulation",
    "Spec",
    "StandstillError",
    "c_structs",
    "coldness",
]
