"""Times as distributions, and the quantiles from which the simulator draws them."""

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Literal, final

__all__ = ["POINTS", "Times"]

POINTS = 65
"""The number of quantiles by which a distribution is represented."""

Shape = Literal["constant", "uniform", "exponential", "lognormal", "quantiles"]


@final
@dataclass(frozen=True)
class Times:
    """A duration as a distribution, in nanoseconds.

    Attributes:
        shape: The kind of distribution.
        numbers: Its parameters. Constant: the value. Uniform: the two ends. Exponential: the mean. Log-normal: the
            median, and the standard deviation of the logarithm (without unit). Quantiles: the quantiles themselves.
    """

    shape: Shape
    numbers: tuple[float, ...]

    @classmethod
    def constant(cls, value_ns: float) -> "Times":
        """Return a time that is always the same."""
        return cls("constant", (value_ns,))

    @property
    def is_constant(self) -> bool:
        """True if the time is always the same."""
        return self.shape == "constant" or (self.shape != "exponential" and len(set(self.quantiles())) == 1)

    def quantiles(self) -> tuple[float, ...]:
        """Return equally spaced quantiles, ascending: one for a constant, else POINTS of them or those given.

        An unbounded distribution is cut so that the mean of its last part is kept. The quantiles are joined by straight
        lines, so the mean of an exponential or log-normal distribution is up to one per cent too high.
        """
        if self.shape == "uniform":
            low, high = self.numbers
            return tuple(low + (high - low) * place / (POINTS - 1) for place in range(POINTS))
        if self.shape == "exponential":
            mean = self.numbers[0]
            rising = [-mean * math.log1p(-place / (POINTS - 1)) for place in range(POINTS - 1)]
            # Beyond any time, an exponential distribution goes on for its mean, on average.
            return (*rising, rising[-1] + 2 * mean)
        if self.shape == "lognormal":
            return self._lognormal()
        return self.numbers

    def _lognormal(self) -> tuple[float, ...]:
        median, sigma = self.numbers
        if sigma == 0:
            return (median,)
        normal = NormalDist()
        steps = POINTS - 1
        rising = [0.0, *(median * math.exp(sigma * normal.inv_cdf(place / steps)) for place in range(1, steps))]
        mean = median * math.exp(sigma * sigma / 2)
        beyond = mean * normal.cdf(sigma - normal.inv_cdf((steps - 1) / steps)) * steps
        return (*rising, max(rising[-1], 2 * beyond - rising[-1]))

    def mean(self) -> float:
        """Return the mean of the times that the simulator draws, in nanoseconds."""
        quantiles = self.quantiles()
        if len(quantiles) == 1:
            return quantiles[0]
        return sum(low + high for low, high in pairwise(quantiles)) / 2 / (len(quantiles) - 1)
