"""Student's t, from mpmath: its quantiles for intervals and its degrees of freedom. Pure."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import mpmath

_MOST_FREEDOM = 1e6
# Newton's error falls with the square of its step: after a step of this share it is below 1e-11.
_LAST_STEP = 1e-6
_MOST_STEPS = 100
#: A quantile is right if so small a share less and more of it lie on either side of the error.
_PROVEN = 1e-8


def _rounded_down(freedom: float) -> float:
    """Two significant digits of degrees of freedom, so that few quantiles have to be computed."""
    bounded = min(max(freedom, 1.0), _MOST_FREEDOM)
    step = 10.0 ** (math.floor(math.log10(bounded)) - 1)
    return math.floor(bounded / step + 1e-6) * step


def outside(t: float, freedom: float) -> float:
    """The probability of a larger absolute value of Student's t.

    Args:
        t: the value, positive.
        freedom: degrees of freedom, at least 1.
    """
    share = freedom / (freedom + t * t)
    return float(mpmath.betainc(freedom / 2, 0.5, 0, share, regularized=True))


@functools.lru_cache(maxsize=4096)
def _student_t(error: float, freedom: float) -> float:
    """Newton's method on the logarithms of t and of its tail, which are almost a straight line.

    A step that leaves the bracket is replaced by the bracket's middle, and the root is checked
    against the distribution function.
    """
    scale = 2 / (math.sqrt(freedom) * float(mpmath.beta(freedom / 2, 0.5)))
    # The normal quantile is too small, and Cauchy's, of one degree of freedom, too large.
    low, high = NormalDist().inv_cdf(1 - error / 2) * (1 - _PROVEN), 2 / (math.pi * error)
    t = low
    for _ in range(_MOST_STEPS):
        tail = outside(t, freedom)
        low, high = (t, high) if tail > error else (low, t)
        slope = scale * (freedom / (freedom + t * t)) ** ((freedom + 1) / 2) * t / tail
        step = math.log(tail / error) / slope
        t *= math.exp(min(max(step, -1.0), 1.0))
        if abs(step) < _LAST_STEP:
            break
        if not low < t < high:
            t = math.sqrt(low * high)
    if outside(t * (1 - _PROVEN), freedom) > error > outside(t * (1 + _PROVEN), freedom):
        return t
    raise ArithmeticError(f"no quantile of t for an error of {error} and {freedom} degrees")


def student_t(confidence: float, freedom: float) -> float:
    """Half the width of Student's two-sided interval, in standard errors.

    Args:
        confidence: confidence of the interval, at least 0.5 and below 1.
        freedom: degrees of freedom; rounded down to two digits, which is conservative.
    """
    return _student_t(1 - confidence, _rounded_down(freedom))


def satterthwaite(*parts: tuple[float, float]) -> float:
    """Degrees of freedom of a sum of independent variances.

    Args:
        parts: each a variance and its degrees of freedom.
    """
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / freedom for variance, freedom in parts if freedom > 0)
    if below > 0:
        return total**2 / below
    return max(1.0, min((freedom for _, freedom in parts), default=1.0))


def mean_freedom(size: int) -> float:
    """Degrees of freedom of the variance of a mean of this many values."""
    return float(max(1, size - 1))
