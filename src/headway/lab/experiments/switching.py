"""The cost of a switch: context-switch and context-switch-one-way (source E)."""

from headway.host.interpreters import Interpreter
from headway.lab.design import Claim, Comparison, Experiment, Placement, Published, Size, Variant, above, between, ends

__all__ = ["EXPERIMENTS"]

_APART: tuple[Placement, ...] = ("split", "same")


def _no_queue(interpreter: Interpreter) -> str:
    if interpreter.cross_interpreter_queue:
        return ""
    return "queues between interpreters came with concurrent.interpreters in CPython 3.14"


def _context_switch(size: Size) -> list[Variant]:
    factor = {"quick": 1, "standard": 20, "published": 100}[size]

    def variant(label: str, model: str, channel: str, rounds: int, **more: object) -> Variant:
        return Variant(
            series=label,
            workload="ping-pong",
            model=model,
            params={"channel": channel, "rounds": rounds},
            samples=3 if size == "quick" else 5,
            placements=more.get("placements", _APART),  # type: ignore[arg-type]
            unfit=more.get("unfit", lambda _: ""),  # type: ignore[arg-type]
        )

    def native(label: str, model: str) -> Variant:
        return Variant(
            series=label,
            workload="ping-pong-native",
            model=model,
            params={"rounds": 2_000 * factor},
            samples=3 if size == "quick" else 5,
            placements=_APART,
            native=True,
        )

    return [
        variant("threads", "threads", "pipes", 1_000 * factor),
        variant("processes", "processes-spawn", "pipes", 1_000 * factor),
        variant("interpreters", "interpreters", "pipes", 1_000 * factor),
        variant("threads, Event", "threads", "event", 500 * factor),
        variant("threads, Queue", "threads", "queue", 500 * factor),
        # The standard library polls every 10 ms, so few rounds tell as much as many.
        variant("interpreters, Queue", "interpreters", "queue", 2 if size == "quick" else 20, unfit=_no_queue),
        variant("asyncio, Queue", "asyncio", "asyncio-queue", 1_000 * factor, placements=("same",)),
        native("C threads", "threads"),
        native("C processes", "processes-spawn"),
    ]


_CONTEXT_SWITCH = Experiment(
    name="context-switch",
    question="How much does a switch to another task cost, and do threads switch faster than processes?",
    method=(
        "Two tasks pass an integer back and forth, and each adds one: threads, processes and sub-interpreters over two "
        "pipes; threads over threading.Event and queue.Queue; interpreters over a cross-interpreter queue (3.14+); two "
        "asyncio tasks over asyncio.Queue; and C programs over pipes as the limit. Both tasks share a core (`same`), or each "
        "has its own core (`split`)."
    ),
    included="Time per switch, two per round. The start of the second task is shown separately.",
    baseline="threads",
    variants=_context_switch,
    metric="switch_s",
    sources=("E2",),
    quick_on=ends,
    claims=(
        Claim(
            id="context-switch/threads-faster",
            text="threads switch somewhat faster than processes",
            evidence=lambda _: [Comparison(top="processes", bottom="threads", relation=above(1))],
            source="E2",
            published=(Published("E2", "threads", "processes"),),
            why="a switch between threads of one process keeps the address space",
        ),
        Claim(
            id="context-switch/threads-faster-in-c",
            text="threads switch somewhat faster than processes in C, too, without an interpreter",
            evidence=lambda _: [Comparison(top="C processes", bottom="C threads", relation=above(1))],
            source="E2",
            published=(Published("E2", "threads", "processes"),),
            scope="native",
            why="a switch between threads of one process keeps the address space",
        ),
    ),
)


def _one_way(size: Size) -> list[Variant]:
    rounds = {"quick": 200, "standard": 2_000, "published": 10_000}[size]

    def variant(label: str, workload: str, model: str, *, native: bool = False) -> Variant:
        return Variant(
            series=label,
            workload=workload,
            model=model,
            params={"rounds": rounds},
            samples=3 if size == "quick" else 5,
            placements=_APART,
            native=native,
        )

    return [
        variant("threads", "one-way", "threads"),
        variant("processes", "one-way", "processes-spawn"),
        variant("C threads", "one-way-native", "threads", native=True),
        variant("C processes", "one-way-native", "processes-spawn", native=True),
    ]


_ONE_WAY = Experiment(
    name="context-switch-one-way",
    question="Does a one-way time stamp show a difference between threads and processes?",
    method=(
        "One side sends a time stamp through a pipe. The other side notes its age and answers, so that the next stamp finds "
        "a waiting reader. The experiment shows why this method cannot tell threads from processes: the spread of single "
        "stamps is below the table."
    ),
    included="Age of the stamp on arrival: one write, one wake-up, one read, and a clock call on each side.",
    baseline="threads",
    variants=_one_way,
    metric="one_way_s",
    sources=("E1",),
    quick_on=ends,
    claims=(
        Claim(
            id="context-switch-one-way/cannot-tell",
            text="the one-way latency shows no difference between threads and processes (within 25 %)",
            evidence=lambda _: [Comparison(top="processes", bottom="threads", relation=between(1 / 1.25, 1.25))],
            source="E1",
            why="both wait for the same wake-up of a sleeping reader",
        ),
    ),
)

EXPERIMENTS = (_CONTEXT_SWITCH, _ONE_WAY)
