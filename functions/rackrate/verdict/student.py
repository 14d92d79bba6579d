"""Student's t, from mpmath: its quantiles for intervals and its degrees of freedom. Pure."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import mpmath

_MOST_FREEDOM = 1e6
# Newton's error falls with the square of its step: after a step of this share it is below 1e-11.
_LAST_STEP = 1e-6
_MOST_STEPS = 50


def _rounded_down(freedom: float) -> float:
    """Two significant digits of degrees of freedom, so that few quantiles have to be computed."""
    kept = min(max(freedom, 1.0), _MOST_FREEDOM)
    step = 10.0 ** (math.floor(math.log10(kept)) - 1)
    return math.floor(kept / step + 1e-6) * step


@functools.lru_cache(maxsize=4096)
def _student_t(confidence: float, freedom: float) -> float:
    """Newton's method on the logarithms of t and of its tail, which are almost a straight line."""
    outside = 1 - confidence
    scale = 2 / (math.sqrt(freedom) * float(mpmath.beta(freedom / 2, 0.5)))
    t = NormalDist().inv_cdf(1 - outside / 2)
    for _ in range(_MOST_STEPS):
        x = freedom / (freedom + t * t)
        tail = float(mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True))
        slope = scale * x ** ((freedom + 1) / 2) * t / tail
        step = math.log(tail / outside) / slope
        t *= math.exp(step)
        if abs(step) < _LAST_STEP:
            return t
    raise ArithmeticError(f"no quantile of t for {confidence} and {freedom} degrees of freedom")


def student_t(confidence: float, freedom: float) -> float:
    """Half the width of Student's two-sided interval, in standard errors.

    Args:
        confidence: confidence of the interval, at least 0.5 and below 1.
        freedom: degrees of freedom; rounded down to two digits, which is conservative.
    """
    return _student_t(confidence, _rounded_down(freedom))


@functools.lru_cache(maxsize=4096)
def variance_ratio(confidence: float, freedom: int, other: int) -> float:
    """The upper end of the two-sided interval of F, the ratio of two equal variances.

    Args:
        confidence: confidence of the interval, between 0 and 1.
        freedom: degrees of freedom of the variance above, at least 1.
        other: degrees of freedom of the variance below, at least 1.
    """

    def beyond(log_f: float) -> float:
        x = other / (other + freedom * math.exp(log_f))
        tail = mpmath.betainc(other / 2, freedom / 2, 0, x, regularized=True)
        return float(tail) - (1 - confidence) / 2

    high = 1.0
    while beyond(high) > 0:
        high *= 2
    root = mpmath.findroot(beyond, (-high, high), solver="anderson", tol=1e-12, verify=False)
    return math.exp(float(root))


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
