"""The rule, whole and readable, in NumPy: class-token rows of a native pass -> regions, looks, box. No torch.

A = attention of the class token, (layers, heads, 1 + R C + overview); cell = 16 pixels.
"""
import numpy as np
from rules import cls_map, smooth, region, bounds
from cands import square

LAYERS, THRESHOLD, REGIONS, LEAST, CONTEXT = range(6, 12), .10, 3, 96, 1.05
TEMPERATURE = .6


def look(z):
    """z: rows, grid, size of a native pass -> boxes (l, t, w, h) of the things, squares to look at."""
    W, H = [int(v) for v in z['size']]
    q = smooth(cls_map(z, LAYERS))                     # overview spread over the patches beneath, 3x3 mean
    rest, boxes, looks = q.copy(), [], []
    for rank in range(REGIONS):
        seed = np.unravel_index(rest.argmax(), rest.shape)
        if rank and rest[seed] < THRESHOLD * q.max(): break      # too faint to be a second thing
        seen = region(rest, seed, THRESHOLD); b = bounds(seen)
        boxes.append(b)
        for th in (.05, .10, .20) if rank == 0 else (.10,):
            looks.append(square(bounds(region(rest, seed, th)), (W, H), CONTEXT, LEAST))
        if rank == 0:
            looks += [square(b, (W, H), g, LEAST) for g in (.75, 1.5)]
        k = np.pad(seen, 2)                            # two cells around it are taken as well
        rest[sum(k[i:i + q.shape[0], j:j + q.shape[1]] for i in range(5) for j in range(5)) > 0] = 0
    m = min(W, H); looks.append(((W - m) / 2, (H - m) / 2, m, m))
    return boxes, looks
