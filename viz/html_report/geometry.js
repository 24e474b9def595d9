// Where the cells of a map lie on the picture as the page shows it: viz/placement.h, with the
// picture at `shown` pixels instead of its own size.
class Axis {
  constructor(axis, shown) {
    this.axis = axis;
    this.shown = shown;
    this.cells = axis.cells;
  }

  /** Of a shown pixel's centre in the model's input, in units of cells; NaN where unseen. */
  position(pixel) {
    const {resized, start, window: width, output, cells} = this.axis;
    const input = (pixel + 0.5) * resized / this.shown - start;
    return input >= 0 && input < Math.min(width, output) ? input * cells / output : NaN;
  }

  /** The cell under a shown pixel; -1 where the model did not see it. */
  cellAt(pixel) {
    const position = this.position(pixel);
    return Number.isNaN(position) ? -1 : Math.min(Math.floor(position), this.cells - 1);
  }

  /** Where a cell begins, in shown pixels. */
  edge(cell) {
    const {resized, start, output, cells} = this.axis;
    return (cell * output / cells + start) * this.shown / resized;
  }

  /** `edge`, moved to lie `margin` or more within what the model saw. */
  seenEdge(cell, margin) {
    const {resized, start, window: width, output} = this.axis;
    const scale = this.shown / resized;
    const begin = Math.max(start * scale, 0);
    const end = Math.min((start + Math.min(width, output)) * scale, this.shown);
    return Math.max(begin + margin, Math.min(this.edge(cell), end - margin));
  }

  /** First and last cell that lie under a pixel. */
  visibleCells() {
    let first = -1;
    let last = -1;
    for (let pixel = 0; pixel < this.shown; ++pixel) {
      const cell = this.cellAt(pixel);
      if (cell < 0) continue;
      if (first < 0) first = cell;
      last = cell;
    }
    return {first, last};
  }

  /**
   * For every shown pixel the two cells that its value lies between and the second one's weight;
   * `near` is -1 where the model did not see it.
   */
  samples(smooth) {
    const near = new Int32Array(this.shown);
    const far = new Int32Array(this.shown);
    const weight = new Float32Array(this.shown);
    for (let pixel = 0; pixel < this.shown; ++pixel) {
      const cell = this.cellAt(pixel);
      near[pixel] = far[pixel] = cell;
      if (cell < 0 || !smooth) continue;
      const centred = Math.min(Math.max(this.position(pixel) - 0.5, 0), this.cells - 1);
      near[pixel] = Math.floor(centred);
      far[pixel] = Math.min(near[pixel] + 1, this.cells - 1);
      weight[pixel] = centred - near[pixel];
    }
    return {near, far, weight};
  }
}

/** The sides of cells (a set of indices) where the set ends, as a path that is stroked. */
function outlineOf(cells, vertical, horizontal, margin) {
  const path = new Path2D();
  const has = (row, column) => row >= 0 && row < vertical.cells && column >= 0 &&
      column < horizontal.cells && cells.has(row * horizontal.cells + column);
  for (const cell of cells) {
    const column = cell % horizontal.cells;
    const row = (cell - column) / horizontal.cells;
    const [left, right] = [column, column + 1].map(each => horizontal.seenEdge(each, margin));
    const [top, bottom] = [row, row + 1].map(each => vertical.seenEdge(each, margin));
    if (left === right || top === bottom) continue;  // not on the picture
    const line = (x, y, toX, toY) => {
      path.moveTo(x, y);
      path.lineTo(toX, toY);
    };
    if (!has(row - 1, column)) line(left, top, right, top);
    if (!has(row + 1, column)) line(left, bottom, right, bottom);
    if (!has(row, column - 1)) line(left, top, left, bottom);
    if (!has(row, column + 1)) line(right, top, right, bottom);
  }
  return path;
}
