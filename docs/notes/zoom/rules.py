"""Maps and candidate boxes."""
import numpy as np


def shares(length, small):
    """(length, small): how an overview patch is shared among the patches beneath and around it, as the program does."""
    scale = small / length
    place = np.clip((np.arange(length) + .5) * scale - .5, 0, small - 1)
    m = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(small)) / max(1, scale))
    return m / m.sum(0)


def cls_map(z, layers=range(12), heads=(0, 1, 2), overview=1.0, native=1.0):
    """(R, C) map of the class token's attention, sum 1."""
    R, C, o, p = z['grid']
    a = z['rows'].astype('f4')[list(layers)][:, list(heads)].mean((0, 1)) / 1024
    m = native * a[1:1 + R * C].reshape(R, C)
    if o and overview:
        m = m + overview * (shares(R, o) @ a[1 + R * C:].reshape(o, p) @ shares(C, p).T)
    return m / m.sum()


def integral(m):
    s = np.zeros((m.shape[0] + 1, m.shape[1] + 1)); s[1:, 1:] = m.cumsum(0).cumsum(1); return s


def box_sum(s, l, t, w, h, cell):
    """Sum in boxes given in pixels, by bilinear reading of the integral image; arrays allowed."""
    def at(x, y):
        x = np.clip(x / cell, 0, s.shape[1] - 1); y = np.clip(y / cell, 0, s.shape[0] - 1)
        i = np.minimum(x.astype(int), s.shape[1] - 2); j = np.minimum(y.astype(int), s.shape[0] - 2)
        fx, fy = x - i, y - j
        return (s[j, i] * (1 - fx) * (1 - fy) + s[j, i + 1] * fx * (1 - fy) + s[j + 1, i] * (1 - fx) * fy + s[j + 1, i + 1] * fx * fy)
    l, t, w, h = [np.asarray(v, float) for v in (l, t, w, h)]
    return at(l + w, t + h) - at(l, t + h) - at(l + w, t) + at(l, t)


def smooth(m, k=1):
    p = np.pad(m, k, mode='edge')
    return sum(p[i:i + m.shape[0], j:j + m.shape[1]] for i in range(2 * k + 1) for j in range(2 * k + 1)) / (2 * k + 1) ** 2


def iou(a, b):
    x = max(0, min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])); y = max(0, min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
    i = x * y
    return i / (a[2] * a[3] + b[2] * b[3] - i)


def fit(cx, cy, side, size):
    W, H = size
    w = min(side, W); h = min(side, H)
    return (min(max(0, cx - w / 2), W - w), min(max(0, cy - h / 2), H - h), w, h)


def peaks(m, k=3, apart=6):
    """Cells of the k greatest places, `apart` cells from each other (Chebyshev)."""
    m = m.copy(); out = []
    for _ in range(k):
        j, i = np.unravel_index(m.argmax(), m.shape); out.append((i, j, m[j, i]))
        m[max(0, j - apart):j + apart + 1, max(0, i - apart):i + apart + 1] = -1
    return out


def best_boxes(m, side, size, k=3, most=.3, cell=16):
    """The k boxes of a side with the greatest mass, no two overlapping by more than `most`."""
    W, H = size
    s = integral(m); step = max(cell, side // 14)
    w, h = min(side, W), min(side, H)
    X = np.unique(np.r_[np.arange(0, W - w + 1, step), W - w]); Y = np.unique(np.r_[np.arange(0, H - h + 1, step), H - h])
    x, y = [v.ravel() for v in np.meshgrid(X, Y)]
    q = box_sum(s, x, y, w, h, cell)
    out = []
    for i in np.argsort(-q, kind='stable'):
        b = (x[i], y[i], w, h)
        if all(iou(b, o) <= most for o in out):
            out.append(b)
            if len(out) == k: break
    return out


def region(q, seed, th):
    """Cells connected with `seed` (row, column) above th of its value in the smoothed map q."""
    on = q > th * q[seed]; seen = np.zeros_like(on); st = [seed]
    while st:
        a, c = st.pop()
        if 0 <= a < on.shape[0] and 0 <= c < on.shape[1] and on[a, c] and not seen[a, c]:
            seen[a, c] = True; st += [(a + 1, c), (a - 1, c), (a, c + 1), (a, c - 1)]
    return seen


def bounds(seen, cell=16):
    J, I = np.where(seen)
    return (I.min() * cell, J.min() * cell, (I.max() - I.min() + 1) * cell, (J.max() - J.min() + 1) * cell)
