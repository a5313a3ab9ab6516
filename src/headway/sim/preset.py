"""The costs of one machine that come with Headway, for simulations that must give the same results everywhere.

The machine was a virtual machine with two cores of an AMD EPYC, Linux 6.18, on one day, with stock CPython. Round
figures (lock, check, pending, the interrupts, setting a timer, cold calls) were set by hand from several measurements,
before `headway calibrate` existed. The loops and the slow-down are what `headway calibrate` found later on such a
machine.

The costs are also assumed where a cost could not be measured: on a machine with one core, no core can wake another.
"""

__all__ = ["COSTS", "INTERPRETERS", "MACHINE", "MIGRATION_NS", "SLICE_NS", "TAKEN_AT", "TICK_NS"]

_AFTER_A_WHILE = (
    54597,
    60278,
    62011,
    63260,
    64787,
    66095,
    67347,
    68941,
    72588,
    74281,
    75736,
    76716,
    79741,
    80913,
    82416,
    86423,
    93196,
    99881,
)
"""Wake-ups of a core that was idle for long. A gap of 0.5 ms was not measured; its costs are assumed to be the same."""

COSTS: dict[str, tuple[float, ...]] = {
    "switch": (1156,),
    "preempt_other": (
        12722,
        13082,
        13332,
        13523,
        13703,
        13843,
        14013,
        14174,
        14344,
        14525,
        14705,
        14926,
        15155,
        15416,
        15737,
        16459,
        17941,
        19795,
    ),
    "wake_idle": (
        37332,
        39285,
        42912,
        45257,
        46198,
        46784,
        47311,
        47771,
        48162,
        48486,
        48834,
        49154,
        49574,
        50026,
        50701,
        51539,
        52984,
        55680,
    ),
    "wake_idle_middle": _AFTER_A_WHILE,
    "wake_idle_long": _AFTER_A_WHILE,
    "timer_interrupt": (6000,),
    "timer_late": (
        13429,
        13600,
        13700,
        13861,
        14031,
        14411,
        15262,
        19200,
        20672,
        23859,
        26433,
        28236,
        29479,
        30802,
        31894,
        32745,
        34127,
        35871,
    ),
    "timer_late_idle": (
        28975,
        30017,
        30879,
        31991,
        34124,
        36369,
        42540,
        47160,
        49503,
        52048,
        54103,
        56686,
        59232,
        61246,
        63078,
        65734,
        66937,
        69221,
    ),
    "timer_arm": (10000,),
    "timer_slack": (50000,),
    "tick_interrupt": (3000,),
    "futex_check": (280,),
    "futex_sleep": (521,),
    "futex_sleep_timed": (664,),
    "futex_woken": (347,),
    "futex_woken_timed": (442,),
    "futex_wake": (288,),
    "futex_wake_end": (432,),
    "futex_wake_idle": (12805,),
    "futex_wake_none": (267,),
    "send": (2873,),
    "send_end": (1916,),
    "send_idle": (16741,),
    "receive_ready": (1252,),
    "receive_sleep": (561,),
    "receive_woken": (939,),
    "lock": (15,),
    "cache_line": (65,),
    "check": (30,),
    "pending": (100,),
    "cold_send": (28000,),
    "cold_receive": (5000,),
    "cold_futex_wake": (3500,),
    "cold_futex_sleep": (3500,),
    "cold_pending": (0, 0, 100, 100, 200, 1000, 2000),
    "cold_python": (9000, 11500, 13000, 14000, 15000, 17000, 23000),
    "cold_python_next": (3300,),
}

TICK_NS = 4_000_000
SLICE_NS = 1_400_000
MIGRATION_NS = 500_000

INTERPRETERS: dict[str, dict[str, float | None]] = {
    "3.13": {"loop_ns": 50.0, "slow_down": None},
    "3.13t": {"loop_ns": 60.0, "slow_down": 0.1},
    "3.14": {"loop_ns": 40.0, "slow_down": None},
}

MACHINE: dict[str, str | int] = {"cpu": "AMD EPYC", "cores": 2, "kernel": "6.18"}
TAKEN_AT = "2026-11-25T00:00:00+00:00"
"""When the preset was added to Headway."""
