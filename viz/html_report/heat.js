// Maps as numbers, and numbers as colours.

/** with_sign of viz/heat_map.h. */
function withSign(values, sign) {
  if (sign === 'positive') return values.map(value => value < 0 ? 0 : value);
  return sign === 'absolute' ? values.map(Math.abs) : values;
}

/** range_of of viz/heat_map.h: what the first and the last colour stand for. */
function rangeOf(values, isSymmetric, outlierPercent) {
  const numbers = values.filter(Number.isFinite).sort();
  if (numbers.length === 0) return {low: 0, high: 0};
  const centre = isSymmetric ? 0 : numbers[numbers.length >> 1];
  const distance = value => Math.abs(value - centre);
  const most = outlierPercent / 100 * numbers.reduce((sum, value) => sum + distance(value), 0);
  // The value farthest from the centre is one of the two ends of the rest.
  let first = 0;
  let last = numbers.length - 1;
  for (let beyond = 0; first < last;) {
    const below = distance(numbers[first]);
    const above = distance(numbers[last]);
    beyond += Math.max(below, above);
    if (beyond > most) break;
    if (below >= above) ++first; else --last;
  }
  const [low, high] = [numbers[first], numbers[last]];
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

/** smoothed of viz/heat_map.h along rows of `count` values that are `step` apart. */
function smoothedAlong(values, lines, lineStep, count, step, factor) {
  const weights = Array.from({length: factor}, (_, i) => {
    const t = (i + 0.5) / factor - 0.5;  // from the cell's middle
    const [near, far] = [t - Math.floor(t), Math.floor(t)];
    const [a, b, c] = [near, near * near, near * near * near];
    return {first: far - 1, taps: [(2 * b - a - c) / 2, (2 - 5 * b + 3 * c) / 2, (a + 4 * b - 3 * c) / 2, (c - b) / 2]};
  });
  const smooth = new Float32Array(lines * count * factor);
  for (let line = 0; line < lines; ++line) {
    for (let cell = 0; cell < count; ++cell) {
      const begin = line * lineStep;
      for (let i = 0; i < factor; ++i) {
        const {first, taps} = weights[i];
        let sum = 0;
        let held = 0;
        for (let tap = 0; tap < 4; ++tap) {
          const from = Math.min(Math.max(cell + first + tap, 0), count - 1);
          const value = values[begin + from * step];
          if (value !== value) continue;
          sum += taps[tap] * value;
          held += taps[tap];
        }
        const own = values[begin + cell * step];
        const at = step === 1 ? begin * factor + cell * factor + i : (cell * factor + i) * lines + line;
        smooth[at] = own === own ? Math.min(Math.max(sum / held, 0), 1) : NaN;
      }
    }
  }
  return smooth;
}

/** Cells of the drawn grid along one of the map's: as many as a coarse map needs. */
function finenessOf({cells}, other) {
  const kCoarse = 64;
  return Math.max(cells, other.cells) > kCoarse ? 3 : 5;
}

/** Shares of 0 to 1 on a grid that is `factor` times as fine. */
function smoothed(shares, rows, columns, factor) {
  const wide = smoothedAlong(shares, rows, columns, columns, 1, factor);
  return smoothedAlong(wide, columns * factor, 1, rows, columns * factor, factor);
}

/** The colour table that a map has: signed maps that are drawn with both signs have their own. */
function tableOf(entry, look, colormaps) {
  const isTwoSided = entry.signed && look.sign === 'both';
  const name = isTwoSided ? look.signedColormap : look.colormap;
  return colormaps.find(table => table.name === name);
}

/** A map as it is drawn, as the program does it: app/visualize/heat_figure.h. */
function heatOf(values, entry, look, settings) {
  const table = tableOf(entry, look, settings.colormaps);
  const isDiverging = table.diverging;  // then 0 has the neutral colour
  const heat = withSign(values, look.sign);
  const range = rangeOf(heat, isDiverging, settings.outlierPercent);
  const sum = values.reduce((all, value) => Number.isFinite(value) ? all + Math.abs(value) : all, 0);
  return {values, range, table, sum, shares: sharesOf(heat, range, isDiverging)};
}

/** Between cells of which some may be NaN: a cell of weight 0 does not count. */
function blend(a, b, weight) {
  if (weight === 0) return a;
  return weight === 1 ? b : a + (b - a) * weight;
}

/** A pixel as canvases keep it on little endian machines: wherever browsers run. */
function rgba(red, green, blue, alpha) {
  return (alpha << 24 | blue << 16 | green << 8 | red) >>> 0;
}

/** The colour of every share of 255, with its opacity. */
function inkOf({colors, diverging}, look) {
  const ink = new Uint32Array(256);
  for (let i = 0; i < 256; ++i) {
    const share = i / 255;
    const strength = diverging ? Math.abs(2 * share - 1) : share;
    ink[i] = rgba(...colors.subarray(3 * i, 3 * i + 3), Math.round(255 * look.opacity * strength));
  }
  return ink;
}

const kSeenFrame = rgba(235, 235, 235, 255);

/**
 * Draws heat over a picture of `width` x `height` pixels, as a layer that lies upon it:
 * viz/heat_overlay.h. Cells of NaN let the picture through, what the model did not see is dimmed
 * beyond a thin line.
 */
class HeatPainter {
  constructor(vertical, horizontal, width, height, unseenBrightness) {
    Object.assign(this, {vertical, horizontal, width, height});
    this.factor = finenessOf(vertical, horizontal);
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.pixels.fill(rgba(0, 0, 0, Math.round(255 * (1 - unseenBrightness))));
    const finer = axis => new Axis({...axis, cells: axis.cells * this.factor});
    this.rows = finer(vertical).samples(height);
    this.columns = finer(horizontal).samples(width);
    const reach = Math.max(1, Math.floor(Math.min(width, height) / 540));
    const {rows, columns} = this;
    if (rows.first >= rows.end || columns.first >= columns.end) return;
    const left = Math.max(columns.first - reach, 0);
    const right = Math.min(columns.end + reach, width);
    for (let y = Math.max(rows.first - reach, 0); y < Math.min(rows.end + reach, height); ++y) {
      this.pixels.fill(kSeenFrame, y * width + left, y * width + right);
    }
  }

  paint(context, heat, look) {
    const {rows, pixels} = this;
    const {near, far, weight, first, end} = this.columns;
    const shares = heat.smooth ??= smoothed(heat.shares, this.vertical.cells, this.horizontal.cells, this.factor);
    const cells = this.horizontal.cells * this.factor;
    const ink = inkOf(heat.table, look);
    const line = new Float32Array(cells);
    for (let y = rows.first; y < rows.end; ++y) {
      const above = rows.near[y] * cells;
      const below = rows.far[y] * cells;
      for (let cell = 0; cell < cells; ++cell) {
        line[cell] = blend(shares[above + cell], shares[below + cell], rows.weight[y]);
      }
      const begin = y * this.width;
      for (let x = first; x < end; ++x) {
        const value = line[near[x]];
        const share = weight[x] === 0 ? value : value + (line[far[x]] - value) * weight[x];
        pixels[begin + x] = share === share ? ink[share * 255 + 0.5 | 0] : 0;  // NaN is not itself
      }
    }
    context.putImageData(this.image, 0, 0);
  }
}
