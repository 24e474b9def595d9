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
