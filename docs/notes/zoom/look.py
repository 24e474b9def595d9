"""The thing of a picture: the box of the map's region around its peak."""
import numpy as np
from rules import bounds, region, smooth

THRESHOLD = .10


def thing(m):
    """m: map of the class token's attention, sum 1, cells of 16 pixels -> box (l, t, w, h)."""
    q = smooth(m)                                      # 3x3 mean
    return bounds(region(q, np.unravel_index(q.argmax(), q.shape), THRESHOLD))
