"""Finds clients that send requests faster than they are answered: the longer such a run takes, the later come the answers."""

import math
from dataclasses import dataclass
from typing import final

from headway.sim.scenario import Scenario
from headway.sim.summary import Summary

__all__ = ["Overload", "overloads"]

_ANSWERED = 0.95
"""The least share of the requests of an open loop that is answered in time: some are under way at the end."""
_CHANCE = 4.0
"""Requests that come at random are fewer than the rate says by so many standard deviations once in 30,000 runs."""


@final
@dataclass(frozen=True)
class Overload:
    """A client with an open loop whose backlog grows.

    Attributes:
        client: The name of the client.
        rate_per_s: The rate at which its requests come.
        done_per_s: The rate at which they are answered.
    """

    client: str
    rate_per_s: float
    done_per_s: float


def overloads(scenario: Scenario, summary: Summary) -> tuple[Overload, ...]:
    """Return the clients of a scenario whose requests were not answered as fast as they came, in all seeds together.

    Runs that ended, or in which all threads wait for ever, are left out: what lacks there is not speed.
    """
    outcomes = [one for one in summary.outcomes if not one.ended and one.stood_s is None]
    counted_s = sum(one.elapsed_s for one in outcomes)
    found = []
    for client in scenario.clients:
        done = sum(part.done for one in outcomes for part in one.parts if part.client and part.name == client.name)
        came = client.rate_per_s * counted_s
        if done < min(_ANSWERED * came, came - _CHANCE * math.sqrt(came)):
            found.append(Overload(client.name, client.rate_per_s, done / counted_s))
    return tuple(found)
