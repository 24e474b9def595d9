"""Features of views, for the gate, and the gate: logits of views, boxes, the map -> one answer."""
import json
from pathlib import Path

import numpy as np
from rules import box_sum, integral

NAMES = 'maxlogp margin logside logmass logdensity ring inner agree agree_top whole'.split()


def lsm(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def features(size, m, views, logits, T=.6, cell=16):
    """size (W, H), map m (sum 1), views as `cands.candidates` gives them, logits (n, classes) -> (n, f)"""
    W, H = [int(v) for v in size]
    s = integral(m)
    n = len(logits)
    lp = lsm(logits / T)
    p = np.exp(lp)
    top = logits.argmax(1)
    ranked = np.sort(logits, 1)
    l, t, w, h = np.array([c[2] for c in views], float).T
    q = box_sum(s, l, t, w, h, cell) + 1e-4
    wider = box_sum(s, l - .2 * w, t - .2 * h, 1.4 * w, 1.4 * h, cell)
    others = (p.sum(0)[None] - p) / n                                  # of the other views
    return np.stack([
        lp.max(1), ranked[:, -1] - ranked[:, -2],
        np.log(np.sqrt(w * h) / 448), np.log(q), np.log(q / (w * h / (W * H))),
        np.log(np.maximum(wider - q, 0) / q + .02), box_sum(s, l + .2 * w, t + .2 * h, .6 * w, .6 * h, cell) / q,
        np.log(others[np.arange(n), top] + 1e-4), (top[None] == top[:, None]).mean(1),
        [c[0] in ('whole', 'squash') for c in views]], 1)


def mix(size, m, views, logits):
    """-> weights of the views (n,), their mixture (classes,)"""
    g = json.loads((Path(__file__).parent / 'gate.json').read_text())
    F = (features(size, m, views, logits, g['temperature']) - g['mean']) / np.array(g['deviation'])
    w = np.exp(lsm(F @ np.array(g['theta'])))
    return w, w @ np.exp(lsm(logits / g['temperature']))
