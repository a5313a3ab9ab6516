"""The simulator's C structs as ctypes and numpy types, and the conversion of a specification to them."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.native_sim.spec import MAX_OPTIONS, Client, Gil, Role, Spec

__all__ = ["EVENT_DTYPE", "GilResultStruct", "RoleResultStruct", "SpecStruct", "c_structs", "in_c"]

EVENT_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("value", "<u4"),
        ("thread", "<u4"),
        ("kind", "u1"),
        ("gil", "u1"),
        ("flags", "<u2"),
        ("reserved", "<u4"),
    ]
)
"""`struct hw_sim_event`. Kinds and flags are those of a trace; `value` is the operation's `where`."""


class _Dist(ctypes.Structure):
    _fields_ = (
        ("quantiles", ctypes.POINTER(ctypes.c_double)),
        ("count", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class _Op(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
        ("index", ctypes.c_uint32),
        ("where", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    )


class _Role(ctypes.Structure):
    _fields_ = (
        ("ops", ctypes.POINTER(_Op)),
        ("op_count", ctypes.c_int32),
        ("repeats", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("gil", ctypes.c_int32),
        ("cores", ctypes.c_uint64),
        ("priority", ctypes.c_int32),
        ("urgent", ctypes.c_int32),
        ("port_step", ctypes.c_int32),
        ("start_at", ctypes.c_int32),
        ("begin_ns", ctypes.c_int64),
        ("stagger_ns", ctypes.c_int64),
        ("turns", ctypes.c_int32),
        ("answers", ctypes.c_int32),
        ("in_calls", ctypes.c_int32),
    )


class _Gil(ctypes.Structure):
    _fields_ = (
        ("policy", ctypes.c_void_p),
        ("options", ctypes.c_int64 * MAX_OPTIONS),
        ("spin_ns", ctypes.c_int64),
        ("yields", ctypes.c_int32),
        ("enabled", ctypes.c_int32),
        ("interval_ns", ctypes.c_int64),
        ("slow_down", ctypes.c_double),
    )


class _Client(ctypes.Structure):
    _fields_ = (
        ("connections", ctypes.c_int32),
        ("port", ctypes.c_int32),
        ("port_step", ctypes.c_int32),
        ("think", ctypes.c_int32),
        ("rate_per_s", ctypes.c_double),
        ("cores", ctypes.c_uint64),
        ("work_ns", ctypes.c_int64),
    )


class SpecStruct(ctypes.Structure):
    """`struct hw_sim_spec`."""

    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("end_ns", ctypes.c_int64),
        ("warm_ns", ctypes.c_int64),
        ("costs", ctypes.POINTER(_Dist)),
        ("tick_ns", ctypes.c_int64),
        ("slice_ns", ctypes.c_int64),
        ("migration_ns", ctypes.c_int64),
        ("core_count", ctypes.c_int32),
        ("gil_count", ctypes.c_int32),
        ("role_count", ctypes.c_int32),
        ("client_count", ctypes.c_int32),
        ("port_count", ctypes.c_int32),
        ("semaphore_count", ctypes.c_int32),
        ("dist_count", ctypes.c_int32),
        ("gils", ctypes.POINTER(_Gil)),
        ("roles", ctypes.POINTER(_Role)),
        ("clients", ctypes.POINTER(_Client)),
        ("semaphores", ctypes.POINTER(ctypes.c_int32)),
        ("dists", ctypes.POINTER(_Dist)),
        ("max_events", ctypes.c_int64),
    )


class RoleResultStruct(ctypes.Structure):
    """`struct hw_sim_role_result`."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "done",
            "held_ns",
            "waited_ns",
            "cpu_ns",
            "computed_ns",
            "ran_ns",
            "waits",
            "worst_wait_ns",
            "stuck",
            "stuck_at",
            "starved",
        )
    )


class GilResultStruct(ctypes.Structure):
    """`struct hw_sim_gil_result`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("held_ns", "acquires", "forced", "requests"))


def c_structs() -> dict[str, type[ctypes.Structure]]:
    """Return the ctypes structs by the name of the C struct without `hw_sim_`, for a comparison with the header."""
    return {
        "dist": _Dist,
        "op": _Op,
        "role": _Role,
        "gil": _Gil,
        "client": _Client,
        "spec": SpecStruct,
        "role_result": RoleResultStruct,
        "gil_result": GilResultStruct,
    }


def _dists(values: Sequence[tuple[float, ...]]) -> Any:
    array = (_Dist * max(1, len(values)))()
    for one, quantiles in zip(array, values, strict=False):
        one.quantiles = (ctypes.c_double * len(quantiles))(*quantiles)
        one.count = len(quantiles)
    return array


def _ops(role: Role) -> Any:
    ops = (_Op * max(1, len(role.ops)))()
    if isinstance(role.ops, np.ndarray):
        ctypes.memmove(ops, np.ascontiguousarray(role.ops).ctypes.data, role.ops.nbytes)
        return ops
    for to, op in zip(ops, role.ops, strict=False):
        to.kind, to.flags, to.index, to.where, to.value = op.kind, op.flags, op.index, op.where, op.value
    return ops


def _role(role: Role) -> _Role:
    ops = _ops(role)
    return _Role(
        ops=ops,
        op_count=len(role.ops),
        repeats=role.repeats,
        threads=role.threads,
        gil=role.gil,
        cores=role.cores,
        priority=role.priority,
        urgent=role.urgent,
        port_step=role.port_step,
        start_at=role.start_at,
        begin_ns=role.begin_ns,
        stagger_ns=role.stagger_ns,
        turns=role.turns,
        answers=role.answers,
        in_calls=role.in_calls,
    )


def _gil(gil: Gil) -> _Gil:
    return _Gil(
        policy=gil.policy or None,
        options=(ctypes.c_int64 * MAX_OPTIONS)(*gil.options),
        spin_ns=gil.spin_ns,
        yields=gil.yields,
        enabled=gil.enabled,
        interval_ns=gil.interval_ns,
        slow_down=gil.slow_down,
    )


def _client(client: Client) -> _Client:
    return _Client(
        connections=client.connections,
        port=client.port,
        port_step=client.port_step,
        think=client.think,
        rate_per_s=client.rate_per_s,
        cores=client.cores,
        work_ns=client.work_ns,
    )


def in_c(spec: Spec) -> SpecStruct:
    """Return the specification as a C struct. ctypes keeps the objects alive to which its pointers refer."""
    return SpecStruct(
        seed=spec.seed,
        end_ns=spec.end_ns,
        warm_ns=spec.warm_ns,
        costs=_dists(spec.costs),
        tick_ns=spec.tick_ns,
        slice_ns=spec.slice_ns,
        migration_ns=spec.migration_ns,
        core_count=spec.core_count,
        gil_count=len(spec.gils),
        role_count=len(spec.roles),
        client_count=len(spec.clients),
        port_count=spec.port_count,
        semaphore_count=len(spec.semaphores),
        dist_count=len(spec.dists),
        gils=(_Gil * max(1, len(spec.gils)))(*map(_gil, spec.gils)),
        roles=(_Role * max(1, len(spec.roles)))(*map(_role, spec.roles)),
        clients=(_Client * max(1, len(spec.clients)))(*map(_client, spec.clients)),
        semaphores=(ctypes.c_int32 * max(1, len(spec.semaphores)))(*spec.semaphores),
        dists=_dists(spec.dists),
        max_events=spec.max_events,
    )
