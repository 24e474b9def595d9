"""Candidate looks of a picture from its native pass."""
import numpy as np
from rules import *
SIDES = (160, 224, 320, 448, 640, 896)
COUNT = (3, 3, 3, 2, 2, 1)

def look_map(z, layers=range(6, 12)): return cls_map(z, layers)

def candidates(z, m=None):
    """-> list of (kind, side, box): mass boxes 'm<rank>', one peak's crops 'p', 'whole' square, 'squash'."""
    W, H = [int(v) for v in z['size']]
    m = look_map(z) if m is None else m
    out = []
    for side, k in zip(SIDES, COUNT):
        for r, b in enumerate(best_boxes(m, side, (W, H), k)): out.append((f'm{r}', side, b))
    q = min(W, H)
    for r, b in enumerate(best_boxes(m, q, (W, H), 1)): out.append((f'm{r}', q, b))
    i, j, _ = peaks(smooth(m), 1)[0]
    for side in SIDES: out.append(('p', side, fit((i + .5) * 16, (j + .5) * 16, side, (W, H))))
    out.append(('whole', q, ((W - q) / 2, (H - q) / 2, q, q)))
    out.append(('squash', max(W, H), (0, 0, W, H)))
    return out

def square(b, size, grow=1.05, least=96):
    return fit(b[0] + b[2] / 2, b[1] + b[3] / 2, max(least, grow * max(b[2], b[3])), size)

def region_candidates(z, m=None):
    """Looks at regions of the map: the first one by three thresholds and wider, the next two by one."""
    W, H = [int(v) for v in z['size']]
    q = smooth(look_map(z) if m is None else m); out = []; rest = q.copy()
    for rank in range(3):
        seed = np.unravel_index(rest.argmax(), rest.shape)
        seen = region(rest, seed, .1); b = bounds(seen)
        out.append((f'r{rank}', 0, square(b, (W, H))))
        if rank == 0:
            out.append(('r5', 0, square(bounds(region(q, seed, .05)), (W, H)))); out.append(('r20', 0, square(bounds(region(q, seed, .2)), (W, H))))
            out.append(('rw', 0, square(b, (W, H), 1.5))); out.append(('rn', 0, square(b, (W, H), .75))); out.append(('rs', 0, tuple(float(v) for v in b)))
        k = np.pad(seen, 2); near = sum(k[i:i + q.shape[0], j:j + q.shape[1]] for i in range(5) for j in range(5)) > 0
        rest = np.where(near, 0, rest)
    return out
