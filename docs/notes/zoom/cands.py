"""Candidate views of a picture from a pass over all of it."""
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
