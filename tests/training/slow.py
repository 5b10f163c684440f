"""Losses of training methods in plain Python: numbers, loops over samples and groups, no autograd. An oracle."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Net:
    """A network of linear, BatchNorm or no, tanh and linear layers, as lists of lists of numbers."""

    into: list
    into_bias: list
    out: list
    out_bias: list
    gain: list | None = None
    shift: list | None = None
    running_mean: list | None = None
    running_variance: list | None = None
    eps: float = 1e-5

    def scores(self, batch, training=True):
        """Return the scores of each sample; in training mode BatchNorm uses the mean and variance of this batch."""
        before = [[dot(row, x) + b for row, b in zip(self.into, self.into_bias, strict=True)] for x in batch]
        means, variances = self.statistics(before, training)
        found = []
        for hidden in before:
            inner = [math.tanh(self.normal(h, j, means, variances)) for j, h in enumerate(hidden)]
            found.append([dot(row, inner) + b for row, b in zip(self.out, self.out_bias, strict=True)])
        return found

    def statistics(self, before, training):
        if self.gain is None:
            return None, None
        if not training:
            return self.running_mean, self.running_variance
        columns = list(zip(*before, strict=True))
        means = [mean(column) for column in columns]
        return means, [mean([(h - m) ** 2 for h in column]) for column, m in zip(columns, means, strict=True)]

    def normal(self, h, j, means, variances):
        if self.gain is None:
            return h
        return self.gain[j] * (h - means[j]) / math.sqrt(variances[j] + self.eps) + self.shift[j]

    def slope(self, x, y, rival):
        """Return ∇ₓ(f_y − f_rival) in evaluation mode, by the chain rule."""
        found = [0.0] * len(x)
        for j, row in enumerate(self.into):
            h = dot(row, x) + self.into_bias[j]
            value = math.tanh(self.normal(h, j, self.running_mean, self.running_variance))
            steep = 1.0 if self.gain is None else self.gain[j] / math.sqrt(self.running_variance[j] + self.eps)
            factor = (self.out[y][j] - self.out[rival][j]) * (1 - value**2) * steep
            for i, weight in enumerate(row):
                found[i] += factor * weight
        return found


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def mean(values):
    return sum(values) / len(values)


def log_softmax(scores):
    total = math.log(sum(math.exp(s) for s in scores))
    return [s - total for s in scores]


def cross_entropy(scores, y):
    return -log_softmax(scores)[y]


def margin(scores, y):
    return scores[y] - max(s for k, s in enumerate(scores) if k != y)


def ramp(scores, y):
    return min(1.0, max(0.0, 1.0 - margin(scores, y)))


def divergence(clean, moved):
    return sum(math.exp(p) * (p - q) for p, q in zip(log_softmax(clean), log_softmax(moved), strict=True))


def by_group(values, groups):
    """Return the mean of each group in the batch."""
    return {g: mean([v for v, h in zip(values, groups, strict=True) if h == g]) for g in sorted(set(groups))}


def gaps_to_mean(values, groups):
    return sum(abs(own - mean(values)) for own in by_group(values, groups).values())


def variance_of_groups(values, groups, slots=0):
    means = list(by_group(values, groups).values())
    means += [0.0] * (slots - len(means))
    return mean([(m - mean(means)) ** 2 for m in means])


def withstanding(net, batch, y, radius, temperature, scale, norms=None):
    """Return s((d − τ)/T) of correct samples by their position; `norms`, if given, replace the norms of gradients."""
    found = {}
    for i, (x, label) in enumerate(zip(batch, y, strict=True)):
        (scores,) = net.scores([x], training=False)
        lead = margin(scores, label)
        if lead <= 0:
            continue
        rival = max((k for k in range(len(scores)) if k != label), key=lambda k: scores[k])
        slope = net.slope(x, label, rival)
        steep = math.sqrt(sum((s * u) ** 2 for s, u in zip(slope, scale, strict=True))) if norms is None else norms[i]
        beyond = lead / steep - radius
        found[i] = 1 / (1 + math.exp(-beyond / temperature)) if temperature else float(beyond > 0)
    return found


def gap_to_rest(found, groups, group):
    inside = [value for i, value in found.items() if groups[i] == group]
    outside = [value for i, value in found.items() if groups[i] != group]
    return abs(mean(outside) - mean(inside)) if inside and outside else 0.0
