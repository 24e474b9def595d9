"""Features of looks, for the gate. The last two experts are the native pass and, if asked, the pass at 448."""
import numpy as np
from rules import *
from cands import *
import cache  # gives `logits(class tokens)` by the head of the `softmax` model
G = np.arange(14)
CEN = ((G >= 3) & (G < 11))[:, None] & ((G >= 3) & (G < 11))[None]
BOR = ~(((G >= 1) & (G < 13))[:, None] & ((G >= 1) & (G < 13))[None])
NAMES = 'maxlogp entropy margin lse top_logit logside logside2 logmass logdensity ring inner native_logp native_top1 agree agree_top own_centre own_border own_spread whole_or_squash is_native is_448 native_max native_entropy 448_max rank native_mass_overview'.split()

def lsm(x):
    x = x - x.max(-1, keepdims=True); return x - np.log(np.exp(x).sum(-1, keepdims=True))

def features(z, z4, cands, toks, own, T=.6, m=None):
    """-> F (n + 2, f), logits (n + 2, 1000), kinds (n + 2), boxes"""
    W, H = [int(v) for v in z['size']]
    m = look_map(z) if m is None else m
    s = integral(m)
    lo = cache.logits(toks); n = len(lo)
    LO = np.concatenate([lo, z['logits'][None], z4['logits'][None]])
    lp = lsm(LO / T); p = np.exp(lp)
    top = LO.argmax(1); srt = np.sort(LO, 1)
    F = np.zeros((n + 2, len(NAMES)), 'f4')
    N = {k: i for i, k in enumerate(NAMES)}
    F[:, 0] = lp.max(1); F[:, 1] = -(p * lp).sum(1); F[:, 2] = srt[:, -1] - srt[:, -2]; F[:, 3] = np.log(np.exp(LO).sum(1)); F[:, 4] = srt[:, -1]
    b = np.array([c[2] for c in cands], float); l, t, w, h = b.T
    side = np.sqrt(w * h); F[:n, 5] = np.log(side / 448); F[:n, 6] = F[:n, 5] ** 2
    q = box_sum(s, l, t, w, h, 16) + 1e-4
    F[:n, 7] = np.log(q); F[:n, 8] = np.log(q / (w * h / (W * H)))
    g = .2
    big = box_sum(s, l - g * w, t - g * h, w * (1 + 2 * g), h * (1 + 2 * g), 16)
    F[:n, 9] = np.log(np.maximum(big - q, 0) / q + .02)
    F[:n, 10] = box_sum(s, l + .2 * w, t + .2 * h, .6 * w, .6 * h, 16) / q
    F[:, 11] = lp[n][top]; F[:, 12] = (top == top[n])
    mean = (p.sum(0)[None] - p) / (n + 1)
    F[:, 13] = np.log(mean[np.arange(n + 2), top] + 1e-4)
    F[:, 14] = [(top == a).mean() for a in top]
    o = own.reshape(n, 14, 14) / own.sum(1).reshape(n, 1, 1)
    F[:n, 15] = o[:, CEN].sum(1); F[:n, 16] = o[:, BOR].sum(1); F[:n, 17] = -(o * np.log(o + 1e-6)).sum((1, 2))
    F[n:, 15:18] = F[:n, 15:18].mean(0)
    F[:n, 18] = [c[0] in ('whole', 'squash') for c in cands]
    F[n, 19] = 1; F[n + 1, 20] = 1
    F[:n, 24] = [int(c[0][1:]) if c[0][0] == 'm' else 0 for c in cands]
    # of passes: the mean of looks where a feature is of boxes
    for i in (5, 6, 7, 8, 9, 10): F[n:, i] = 0
    R, C, oR, oC = z['grid']
    # how sure the passes are, beside the looks' size (interactions with the size)
    nm = lp[n].max(); F[:n, 21] = nm * F[:n, 5]; F[:n, 22] = -(p[n] * lp[n]).sum() * F[:n, 5]; F[:n, 23] = lp[n + 1].max() * F[:n, 5]
    share_ov = z['rows'].astype('f4')[6:12, :, 1 + R * C:].mean((0, 1)).sum() / 1024
    F[:n, 25] = share_ov * F[:n, 5]
    K = np.r_[np.zeros(n, int), 1, 2]
    return F, LO.astype('f4'), K
