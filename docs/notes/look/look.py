"""The things of a picture: boxes of the map's regions."""
import numpy as np
from rules import bounds, region, smooth

THRESHOLD, NEXT, THINGS = .10, .30, 3


def things(m):
    """m: map of the class token's attention, sum 1, cells of 16 pixels -> boxes (l, t, w, h), the surest first."""
    q = smooth(m)                                      # 3x3 mean
    rest, boxes = q.copy(), []
    for rank in range(THINGS):
        seed = np.unravel_index(rest.argmax(), rest.shape)
        if rank and rest[seed] < NEXT * q.max(): break      # too faint to be a second thing
        seen = region(rest, seed, THRESHOLD)
        boxes.append(bounds(seen))
        k = np.pad(seen, 2)                            # two cells around it are taken as well
        rest[sum(k[i:i + q.shape[0], j:j + q.shape[1]] for i in range(5) for j in range(5)) > 0] = 0
    return boxes
