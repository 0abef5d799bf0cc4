"""Temporary."""

import numpy as np
from scipy import stats


def accuracy(p, g):
    return float((p == g).mean())


def f1(p, g):
    tp = float(((p == 1) & (g == 1)).sum())
    n = float((p == 1).sum() + (g == 1).sum())
    return 2 * tp / n if n else 0.0


def matthews(p, g):
    with np.errstate(all="ignore"):
        r = float(np.corrcoef(p, g)[0, 1])
    return 0.0 if np.isnan(r) else r


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": lambda p, g: float(stats.pearsonr(p, g)[0]),
    "spearman": lambda p, g: float(stats.spearmanr(p, g)[0]),
}
