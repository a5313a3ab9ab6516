"""An analysis as JSON. Keys are stable. Values of keys that end in `_ns` are in nanoseconds, shares are from 0 to 1.

The keys are `version`, `process`, `window`, `events`, `switch_interval_ns`, `wait_ns` (of all threads for GILs), `labels`
(of all threads, by their indices), `threads`, `roles`, `gils` (each with `blame`, `blame_by_role`, `timeline`, `convoys`), `held`, `waited`, `longest_holds`, `locks`, `lock_waits`,
`missing`, `losses`, `findings`, and `what_if`: the change that would help most, or null.

- `missing` is the most waiting that the trace may lack, and what part of all waiting that is. `most_ns` and `share` are null
  if nothing bounds it; the `most_ns` of the parts that have a bound are there all the same. `waited_ns` is the waiting for GILs,
  and for the locks that take a GIL's place.
- `locks` is of a trace without a GIL. `lock_waits` is of one with a GIL; its `holders` tell who had the lock meanwhile, as far
  as that is known, and what these threads did, by the values of `headway.traces.analysis.doing.Doing`.
- Threads are integers, `threads[].index` and the places in `labels`, in `blame`, `timeline` and `lock_waits`. They are labels, `threads[].label`, or the
  roles of pools, in `findings`, `convoys`, `held`, `waited` and `longest_holds`. In `gils` and `locks`, `threads` is a number.
- `roles` are the threads with each pool as one, `blame_by_role` is who waited for whom among these, by label, each with its longest
  single wait and the thread that had it. Both are empty if there is no pool: `threads` and `blame` have every thread.
- Of a report about some threads (`--thread`), `threads`, the waiters of `blame`, `timeline.by_thread`, `held`, `waited`,
  `longest_holds` and `locks` have those alone, and `convoys` and `lock_waits` are those in which one of them waits or is
  waited for. `roles` and `blame_by_role` are empty. Findings and sums are of all threads.
- A `switch_interval_ns` of 4294967295000 may also be a longer one.
- Locations are {"file", "line", "function"}, or null if they are unknown. Stacks begin with the innermost frame.
- `process.family` is hexadecimal. The times of windows, timelines, the longest holds, threads' lives and the end of the
  policy count from the begin of this trace, `process.start_realtime_ns`: that of tracing in this process or, if events were
  overwritten, that of what is left. It is `process.offset_ns` after the begin of the launch, from which the times of the
  report in words count, and `--since` and `--until`.
- `process.policy_options` is null if there was no policy, or its options are not known. `changed` has those that differed from
  their presets, `presets` the others.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from headway.traces.analysis.blame import Blame
from headway.traces.analysis.contention import ParkPlace
from headway.traces.analysis.hotspots import Place
from headway.traces.analysis.missing import Missing
from headway.traces.analysis.result import Analysis, GilSummary
from headway.traces.analysis.threads import ThreadSummary
from headway.traces.model import Frame
from headway.traces.policy_options import PolicyOptions

__all__ = ["VERSION", "as_json"]

VERSION = 1
_DIGITS = 6

_Json = dict[str, Any]


def as_json(analysis: Analysis, threads: Collection[int] | None = None) -> _Json:
    """Return the analysis as values that JSON can express.

    `threads` are the indices of the threads that the report is about; None means all.
    """
    start_ns = analysis.trace_start_ns
    return {
        "version": VERSION,
        "process": {
            **asdict(analysis.process),
            "family": f"{analysis.process.family:016x}",
            "command": list(analysis.process.command),
            "policy_options": _policy_options(analysis.process.policy_options),
            "offset_ns": start_ns - analysis.origin_ns,
        },
        "window": {
            "start_ns": analysis.start_ns - start_ns,
            "end_ns": analysis.end_ns - start_ns,
            "wall_ns": analysis.wall_ns,
        },
        "events": analysis.events,
        "switch_interval_ns": analysis.interval_ns,
        "wait_ns": analysis.wait_ns,
        "findings": [
            {
                **asdict(one),
                "threads": list(one.threads),
                "frame": _frame(one.frame),
                "predicted": list(one.predicted),
            }
            for one in analysis.findings
        ],
        "labels": list(analysis.labels),
        "threads": [_thread(one, start_ns) for one in analysis.threads if _is_of(threads, one.index)],
        "roles": [_thread(one, start_ns) for one in analysis.roles if threads is None],
        "gils": [_gil(one, start_ns, analysis.labels, threads) for one in analysis.gils],
        "held": [_place(one) for one in analysis.held],
        "waited": [_place(one, holds=False) for one in analysis.waited],
        "longest_holds": [
            {**asdict(one), "start_ns": one.start_ns - start_ns, "stack": _stack(one.stack)} for one in analysis.longest
        ],
        "locks": {
            "kinds": {kind.name.lower(): asdict(times) for kind, times in analysis.contention.kinds.items()},
            "places": [
                {
                    "kind": one.kind.name.lower(),
                    "type": one.type_name,
                    "frame": _frame(one.frame),
                    "stack": _stack(one.stack),
                    "threads": one.threads,
                    "lived_ns": one.lived_ns,
                    "times": asdict(one.times),
                }
                for one in analysis.contention.places
            ],
        },
        "lock_waits": [
            _lock_wait(one)
            for one in analysis.lock_waits
            if _is_of(threads, *one.members, *(thread for each in one.holders for thread in each.threads))
        ],
        "what_if": None if analysis.what_if is None else asdict(analysis.what_if),
        "missing": _missing(analysis.missing),
        "losses": {**asdict(analysis.loss), "unpaired_events": analysis.unpaired + analysis.contention.unpaired},
    }


def _policy_options(found: PolicyOptions | None) -> _Json | None:
    return None if found is None else {"changed": dict(found.changed), "presets": dict(found.presets)}


def _is_of(threads: Collection[int] | None, *indices: int) -> bool:
    """Tell whether a report about `threads` is about one of some others."""
    return threads is None or not set(threads).isdisjoint(indices)


def _missing(one: Missing) -> _Json:
    return {
        "waited_ns": one.waited_ns,
        "most_ns": one.most_ns if one.bounded else None,
        "share": round(one.share, _DIGITS) if one.bounded else None,
        "parts": [{"why": part.why.value, "count": part.count, "most_ns": part.most_ns} for part in one.parts],
    }


def _thread(one: ThreadSummary, start_ns: int) -> _Json:
    lived = {"since_ns": one.since_ns - start_ns, "until_ns": one.until_ns - start_ns}
    return {**asdict(one), **lived, "gils": list(one.gils), "computes": one.computes}


def _lock_wait(one: ParkPlace) -> _Json:
    return {
        "frame": _frame(one.frame),
        "stack": _stack(one.stack),
        "threads": list(one.members),
        "lived_ns": one.lived_ns,
        "times": asdict(one.times),
        "holders": [
            {
                "threads": list(each.threads),
                "doing": each.doing.value,
                "frame": _frame(each.stack[0]) if each.stack else None,
                "stack": _stack(each.stack),
                "blocked_ns": each.blocked_ns,
            }
            for each in one.holders
        ],
    }


def _frame(frame: Frame | None) -> _Json | None:
    if frame is None or not frame.filename:
        return None
    return {"file": frame.filename, "line": frame.line, "function": frame.function}


def _stack(stack: Sequence[Frame]) -> list[_Json | None]:
    return [_frame(frame) for frame in stack]


def _place(one: Place, *, holds: bool = True) -> _Json:
    value: _Json = {
        "frame": _frame(one.frame),
        "stack": _stack(one.stack),
        "stacks": one.stacks,
        "threads": list(one.threads),
        "times": asdict(one.times),
        "forced": one.forced,
    }
    if holds:
        value |= {
            "overrun_ns": one.overrun_ns,
            "overrun_max_ns": one.overrun_max_ns,
            "overrun_threads": list(one.overrun_threads),
            "blocked_ns": one.blocked_ns,
            "late_blocked_ns": one.late_blocked_ns,
        }
    return value


def _gil(one: GilSummary, start_ns: int, labels: Sequence[str], threads: Collection[int] | None) -> _Json:
    line = one.timeline
    return {
        "index": one.index,
        "main": one.main,
        "name": one.name,
        "threads": one.threads,
        "wall_ns": one.wall_ns,
        "switch_interval_ns": one.interval_ns,
        "held_share": round(one.holds.total_ns / one.wall_ns, _DIGITS) if one.wall_ns else 0.0,
        "holds": asdict(one.holds),
        "waits": asdict(one.waits),
        "forced": one.forced,
        "handovers": one.handovers,
        "handover_ns": one.handover_ns,
        "nobody_ns": one.nobody_ns,
        "off_core_ns": one.off_core_ns,
        "blame": [row for row in _blame(one.blame) if _is_of(threads, row["waiter"])],
        "blame_by_role": _blame_by_role(one, labels) if threads is None else [],
        "timeline": {
            "edges_ns": (line.edges_ns - start_ns).tolist(),
            "held_share": line.held.round(_DIGITS).tolist(),
            "waiting_threads": line.waiting.round(_DIGITS).tolist(),
            "by_thread": [
                {"thread": int(thread), "held_share": shares.round(_DIGITS).tolist()}
                for thread, shares in zip(line.threads, line.held_by, strict=True)
                if _is_of(threads, int(thread))
            ],
        }
        if line is not None
        else None,
        "convoys": [
            {
                "waiter": convoy.waiter,
                "waiters": convoy.waiters,
                "holder": convoy.holder,
                "holders": convoy.holders,
                "waits": asdict(convoy.waits),
                "holds": len(convoy.behind),
                "off_core_ns": convoy.off_core_ns,
                "all_waits_ns": convoy.all_waits_ns,
                "switch_interval_ns": convoy.interval_ns,
                "waiter_stack": _stack(convoy.waiter_stack),
                "holder_stack": _stack(convoy.holder_stack),
            }
            for convoy in one.convoys
            if _is_of(threads, *convoy.waiter_ids, *convoy.holder_ids)
        ],
    }


def _blame(one: Blame) -> list[_Json]:
    """Return a row for each waiter; `by` leaves out threads that held for no time."""
    return [
        {
            "waiter": int(waiter),
            "wait_ns": int(one.wait_ns[row]),
            "by": [
                {"holder": int(holder), "wait_ns": int(one.held_ns[row, column])}
                for column, holder in enumerate(one.holders)
                if one.held_ns[row, column]
            ],
            "others_ns": int(one.others_ns[row]),
            "nobody_ns": int(one.nobody_ns[row]),
        }
        for row, waiter in enumerate(one.waiters)
    ]


def _blame_by_role(gil: GilSummary, labels: Sequence[str]) -> list[_Json]:
    """Return the same with labels of pools instead of threads; [] if there is no pool."""
    if gil.blame_by_role is None:
        return []
    of = {one.index: one for one in gil.by_role}
    rows = _blame(gil.blame_by_role)
    for row in rows:
        waiter = of[row["waiter"]]
        row |= {
            "waiter": waiter.label,
            "threads": waiter.threads,
            "max_ns": waiter.waits.max_ns,
            "longest_waiter": labels[waiter.longest_waiter],
        }
        row["by"] = [
            {"holder": of[one["holder"]].label, "threads": of[one["holder"]].threads, "wait_ns": one["wait_ns"]}
            for one in row["by"]
        ]
    return rows
