"""The simulator of the shared library: what it is told, as plain values, and a run. Imports `headway.native` and errors.

`Spec` and what it is made of have the names and the meaning of the C structs; everything that is computed from a
scenario stands in them before a machine is made, so that it can be looked at without one.
"""

from headway.native_sim.simulation import Simulation, coldness
from headway.native_sim.spec import (
    COSTS,
    GOES_ON,
    MAX_OPTIONS,
    OF_DIST,
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
    "COSTS",
    "EVENT_DTYPE",
    "GOES_ON",
    "MAX_OPTIONS",
    "OF_DIST",
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
    "c_structs",
    "coldness",
]
