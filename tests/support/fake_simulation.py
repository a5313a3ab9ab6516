"""A stand-in for the simulator, whose figures and events follow from the specification alone.

The threads of each GIL take turns: each one waits, holds the GIL for 100 us, and releases it. A client gets an answer
every millisecond.
"""

import numpy as np

from headway.native_sim import EVENT_DTYPE, GilResult, RoleResult
from headway.traces.model import Flag, Kind

TURN_NS = 100_000
ANSWER_NS = 1_000_000


class FakeSimulation:
    """A fake with the interface of headway.native_sim.Simulation."""

    def __init__(self, spec):
        self.spec = spec
        self.now_ns = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, until_ns):
        assert until_ns >= self.now_ns
        self.now_ns = min(until_ns, self.spec.end_ns)

    def stood_ns(self):
        return None

    def ended_ns(self):
        return None

    def _elapsed_ns(self):
        return max(0, self.now_ns - self.spec.warm_ns)

    def role_result(self, index):
        if index >= len(self.spec.roles):
            client = self.spec.clients[index - len(self.spec.roles)]
            done = client.connections * (self._elapsed_ns() // ANSWER_NS)
            return RoleResult(done, 0, 0, done * client.work_ns, 0, 0, 0, 0)
        threads = self.spec.roles[index].threads
        held = self._elapsed_ns() * threads // max(1, sum(role.threads for role in self.spec.roles))
        return RoleResult(0, held, held, held, held, 0, 10 * threads, 5 * TURN_NS)

    def gil_result(self, index):
        turns = self._elapsed_ns() // TURN_NS
        return GilResult(self._elapsed_ns(), turns, turns // 2, turns // 2)

    def latencies_ns(self, index):
        count = self.role_result(index).done
        seed = self.spec.seed * 1000 + index
        return np.random.default_rng(seed).exponential(ANSWER_NS, count).astype(np.float32)

    def steps(self):
        return self.now_ns // 1000

    def events(self):
        rows = []
        for gil in range(len(self.spec.gils)):
            mine, first = [], 0
            for role in self.spec.roles:
                begins = [role.begin_ns + n * role.stagger_ns for n in range(role.threads)]
                if role.gil == gil:
                    mine += [(first + n, begin, role.ops[-1].where) for n, begin in enumerate(begins)]
                first += role.threads
            now, turn = max((begin for _, begin, _ in mine), default=0), 0
            while mine and now + 2 * TURN_NS < self.spec.end_ns:
                thread, _, where = mine[turn % len(mine)]
                forced = Flag.FORCED if turn % 2 else 0
                rows.append((now, where, thread, Kind.WAIT, gil, 0, 0))
                rows.append((now + 10, 0, thread, Kind.ACQUIRE, gil, 0, 0))
                rows.append((now + TURN_NS, where, thread, Kind.RELEASE, gil, forced, 0))
                now, turn = now + TURN_NS + 10, turn + 1
        rows.sort(key=lambda row: row[0])
        kept = rows[: self.spec.max_events]
        return np.array(kept, dtype=EVENT_DTYPE), len(rows) - len(kept)
