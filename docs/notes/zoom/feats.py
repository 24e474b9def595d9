"""Features of looks, for the gate, and the gate: logits of looks and of the native pass, boxes, the map -> one answer."""
import json
from pathlib import Path

import numpy as np
from rules import box_sum, integral

NAMES = 'maxlogp margin lse top_logit logside logmass logdensity ring inner native_logp native_top1 agree agree_top whole'.split()


def lsm(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def features(size, m, native, looks, logits, T=.6):
    """size (W, H), map m (sum 1), native (classes,), looks as `cands.candidates` gives them, logits (n, classes) -> (n, f)"""
    W, H = [int(v) for v in size]
    s = integral(m)
    n = len(logits)
    lp, ln = lsm(logits / T), lsm(native / T)
    p = np.exp(lp)
    top, best = logits.argmax(1), native.argmax()
    ranked = np.sort(logits, 1)
    l, t, w, h = np.array([c[2] for c in looks], float).T
    q = box_sum(s, l, t, w, h, 16) + 1e-4
    wider = box_sum(s, l - .2 * w, t - .2 * h, 1.4 * w, 1.4 * h, 16)
    others = (p.sum(0)[None] + np.exp(ln) - p) / n                     # mean of the other looks and the pass
    tops = np.r_[top, best]
    return np.stack([
        lp.max(1), ranked[:, -1] - ranked[:, -2], ranked[:, -1] + np.log(np.exp(logits - ranked[:, -1:]).sum(1)), ranked[:, -1],
        np.log(np.sqrt(w * h) / 448), np.log(q), np.log(q / (w * h / (W * H))),
        np.log(np.maximum(wider - q, 0) / q + .02), box_sum(s, l + .2 * w, t + .2 * h, .6 * w, .6 * h, 16) / q,
        ln[top], top == best, np.log(others[np.arange(n), top] + 1e-4), (tops[None] == top[:, None]).mean(1),
        [c[0] in ('whole', 'squash') for c in looks]], 1)


def mix(size, m, native, looks, logits):
    """-> weights of the looks (n,), their mixture (classes,)"""
    g = json.loads((Path(__file__).parent / 'gate.json').read_text())
    F = (features(size, m, native, looks, logits, g['temperature']) - g['mean']) / np.array(g['deviation'])
    w = np.exp(lsm(F @ np.array(g['theta'])))
    return w, w @ np.exp(lsm(logits / g['temperature']))
