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

/** with_sign of viz/heat_map.h. */
function withSign(values, sign) {
  if (sign === 'positive') return values.map(value => value < 0 ? 0 : value);
  return sign === 'absolute' ? values.map(Math.abs) : values;
}

/** range_of of viz/heat_map.h: what the first and the last colour stand for. */
function rangeOf(values, isSymmetric, outlierPercent) {
  const numbers = values.filter(Number.isFinite).sort();
  if (numbers.length === 0) return {low: 0, high: 0};
  const centre = isSymmetric ? 0 : numbers[Math.floor(numbers.length / 2)];
  const distance = value => Math.abs(value - centre);
  const farthest = [...numbers].sort((a, b) => distance(b) - distance(a));
  const most = outlierPercent / 100 * farthest.reduce((sum, value) => sum + distance(value), 0);
  let dropped = 0;
  for (let beyond = 0; dropped + 1 < farthest.length; ++dropped) {
    beyond += distance(farthest[dropped]);
    if (beyond > most) break;
  }
  const kept = farthest.slice(dropped).sort((a, b) => a - b);
  const [low, high] = [kept[0], kept[kept.length - 1]];
  const reach = Math.max(Math.abs(low), Math.abs(high));
  return isSymmetric ? {low: -reach, high: reach} : {low, high};
}

/** 0 at the first colour, 1 at the last; a map of one value is the neutral or the first colour. */
function sharesOf(values, {low, high}, isDiverging) {
  if (!(high > low)) {
    if (!isDiverging) return values.map(value => Number.isNaN(value) ? NaN : 0);
    const reach = Math.max(1, 2 * Math.abs(low));
    [low, high] = [low - reach, low + reach];
  }
  return values.map(value => Math.min(Math.max((value - low) / (high - low), 0), 1));
}

/** smallest_set of viz/heat_map.h, as the set of the cells' indices. */
function smallestSet(values, mass) {
  const positive = [...values.keys()].filter(i => values[i] > 0 && Number.isFinite(values[i]));
  positive.sort((a, b) => values[b] - values[a]);
  const wanted = mass * positive.reduce((sum, i) => sum + values[i], 0);
  const cells = new Set();
  let held = 0;
  for (const cell of positive) {
    if (held >= wanted) break;
    cells.add(cell);
    held += values[cell];
  }
  return cells;
}

/** The colour table that a map has: signed maps that are drawn with both signs have their own. */
function tableOf(entry, look, colormaps) {
  const isTwoSided = entry.signed && look.sign === 'both';
  const name = isTwoSided ? look.signedColormap : look.colormap;
  return colormaps.find(table => table.name === name);
}

/** A map as it is drawn, as the program does it: app/visualize/heat_figure.h. */
function heatOf(values, entry, look, page) {
  const table = tableOf(entry, look, page.colormaps);
  const isDiverging = table.diverging;  // then 0 has the neutral colour
  const heat = withSign(values, look.sign);
  const isAsAtFirst = look.sign === page.firstLook.sign &&
      isDiverging === tableOf(entry, page.firstLook, page.colormaps).diverging;
  const range = isAsAtFirst && entry.range || rangeOf(heat, isDiverging, page.outlierPercent);
  return {
    range, table, shares: sharesOf(heat, range, isDiverging),
    outlined: smallestSet(heat, look.mass)};
}

/** Between cells of which some may be NaN: a cell of weight 0 does not count. */
function blend(a, b, weight) {
  if (weight === 0) return a;
  return weight === 1 ? b : a + (b - a) * weight;
}

const kSeenFrame = 235;

/** 1 where a pixel, or one `reach` away, was seen (`near` of Axis.samples). */
function withinReach(near, reach) {
  const around = pixel => near.slice(Math.max(0, pixel - reach), pixel + reach + 1);
  return near.map((_, pixel) => around(pixel).some(cell => cell >= 0));
}

/**
 * Heat (of heatOf) over `base`, both RGBA: viz/heat_overlay.h. Cells of NaN show the picture, what
 * the model did not see is dimmed beyond a thin line.
 */
function drawHeat(base, target, heat, vertical, horizontal, look, unseenBrightness) {
  const rows = vertical.samples(look.smooth);
  const columns = horizontal.samples(look.smooth);
  const reach = Math.max(1, Math.floor(Math.min(vertical.shown, horizontal.shown) / 540));
  const rowsOfLine = withinReach(rows.near, reach);
  const columnsOfLine = withinReach(columns.near, reach);
  const {shares} = heat;
  const {colors, diverging} = heat.table;
  let at = 0;
  for (let y = 0; y < vertical.shown; ++y) {
    const nearRow = rows.near[y] * horizontal.cells;
    const farRow = rows.far[y] * horizontal.cells;
    for (let x = 0; x < horizontal.shown; ++x, at += 4) {
      const near = columns.near[x];
      target[at + 3] = 255;
      if (nearRow < 0 || near < 0) {
        const isLine = rowsOfLine[y] && columnsOfLine[x];
        for (let c = 0; c < 3; ++c) {
          target[at + c] = isLine ? kSeenFrame : base[at + c] * unseenBrightness;
        }
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
      const strength = !look.fade ? 1 : diverging ? Math.abs(2 * share - 1) : share;
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
