// Maps as numbers, and numbers as colours.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The float32 values of a line of maps; typed arrays are little endian wherever browsers run. */
function valuesOf(base64) {
  return new Float32Array(bytesOf(base64).buffer);
}

/** What the first and the last colour stand for; symmetric about 0 for signed maps. */
function rangeOf(values, isSigned) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return {low: 0, high: 0};
  const most = Math.max(Math.abs(low), Math.abs(high));
  return isSigned ? {low: -most, high: most} : {low, high};
}

/** 0 at the first colour, 1 at the last; a map of one value is the neutral or the first colour. */
function shareOf(value, range, isSigned) {
  if (!(range.high > range.low)) return Number.isNaN(value) ? NaN : isSigned ? 0.5 : 0;
  const share = (value - range.low) / (range.high - range.low);
  return Math.min(Math.max(share, 0), 1);
}

/** Between cells of which some may be NaN: a cell of weight 0 does not count. */
function blend(a, b, weight) {
  if (weight === 0) return a;
  return weight === 1 ? b : a + (b - a) * weight;
}

const kUnseenBrightness = 0.35;  // viz/heat_overlay.h

/**
 * `map` ({shares, columns, isSigned}) over `base`, both RGBA: viz/heat_overlay.h. Cells of NaN show
 * the picture, what the model did not see is dimmed.
 */
function drawHeat(base, target, map, vertical, horizontal, colors, look) {
  const rows = vertical.samples(look.smooth);
  const columns = horizontal.samples(look.smooth);
  const {shares} = map;
  let at = 0;
  for (let y = 0; y < vertical.shown; ++y) {
    const nearRow = rows.near[y] * map.columns;
    const farRow = rows.far[y] * map.columns;
    for (let x = 0; x < horizontal.shown; ++x, at += 4) {
      const near = columns.near[x];
      target[at + 3] = 255;
      if (nearRow < 0 || near < 0) {
        for (let c = 0; c < 3; ++c) target[at + c] = base[at + c] * kUnseenBrightness;
        continue;
      }
      const far = columns.far[x];
      const share = blend(
          blend(shares[nearRow + near], shares[nearRow + far], columns.weight[x]),
          blend(shares[farRow + near], shares[farRow + far], columns.weight[x]), rows.weight[y]);
      if (Number.isNaN(share)) {
        for (let c = 0; c < 3; ++c) target[at + c] = base[at + c];
        continue;
      }
      const strength = !look.fade ? 1 : map.isSigned ? Math.abs(2 * share - 1) : share;
      const alpha = look.opacity * strength;
      const color = Math.round(share * 255) * 3;
      for (let c = 0; c < 3; ++c) {
        target[at + c] = base[at + c] + (colors[color + c] - base[at + c]) * alpha;
      }
    }
  }
}

/** Sensible digits for a person. */
function numberText(value) {
  if (Number.isNaN(value)) return 'not a number';
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(3);
}

/** The bytes of a .npy file (format 1.0) of float32 (rows, columns). */
function npyFile(values, rows, columns) {
  const kAlignment = 64;
  const kPrefix = 10;  // magic, version, length of the text
  let text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  text = text.padEnd(Math.ceil((kPrefix + text.length + 1) / kAlignment) * kAlignment - kPrefix - 1);
  text += '\n';
  const head = Uint8Array.from(
      [0x93, ...[...'NUMPY'].map(character => character.charCodeAt(0)), 1, 0, text.length & 255,
       text.length >> 8, ...[...text].map(character => character.charCodeAt(0))]);
  return new Blob([head, values], {type: 'application/octet-stream'});
}
