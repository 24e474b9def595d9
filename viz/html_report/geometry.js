// The places of a map's cells on the picture: viz/placement.h. A place is 0 where the picture
// begins and 1 where it ends, so that maps of several models over it have it in common.
class Axis {
  /** {resized, start, window, output, cells} as page_data.cpp writes them. */
  constructor(axis) {
    Object.assign(this, axis);
    const end = Math.min(this.window, this.output);
    this.seen = {
      begin: Math.max(this.start / this.resized, 0),
      end: Math.min((this.start + end) / this.resized, 1)};
    this.first = Math.max(Math.floor(-this.start * this.cells / this.output), 0);
    this.last = Math.max(
        Math.ceil(this.cellsTo(this.seen.end) - 1e-9) - 1, this.first);
  }

  /** In units of cells. */
  cellsTo(place) {
    return (place * this.resized - this.start) * this.cells / this.output;
  }

  /** The same where the model saw it, else NaN. */
  position(place) {
    const input = place * this.resized - this.start;
    return input >= 0 && input < Math.min(this.window, this.output) ? this.cellsTo(place) : NaN;
  }

  /** The cell at a place; -1 where the model did not see it. */
  cellAt(place) {
    const position = this.position(place);
    return Number.isNaN(position) ? -1 : Math.min(Math.floor(position), this.cells - 1);
  }

  /** The nearest cell that lies on the picture. */
  cellNear(place) {
    return this.within(Math.floor(this.cellsTo(place)));
  }

  within(cell) {
    return Math.min(Math.max(cell, this.first), this.last);
  }

  /** Where a cell begins, which may be beyond the picture. */
  edge(cell) {
    return (cell * this.output / this.cells + this.start) / this.resized;
  }

  /** First and last cell whose middle lies between two places; none where first > last. */
  cellsBetween(begin, end) {
    const kRounding = 1e-6;
    return {
      first: Math.max(Math.ceil(this.cellsTo(begin) - 0.5 - kRounding), 0),
      last: Math.min(Math.floor(this.cellsTo(end) - 0.5 + kRounding), this.cells - 1)};
  }

  /**
   * For every pixel of a picture of `shown` the two cells that its value lies between and the
   * second one's weight; pixels from `first` up to `end` were seen.
   */
  samples(shown) {
    const near = new Int32Array(shown);
    const far = new Int32Array(shown);
    const weight = new Float32Array(shown);
    let first = shown;
    let end = 0;
    for (let pixel = 0; pixel < shown; ++pixel) {
      const place = (pixel + 0.5) / shown;
      if (this.cellAt(place) < 0) continue;
      first = Math.min(first, pixel);
      end = pixel + 1;
      const centred = Math.min(Math.max(this.position(place) - 0.5, 0), this.cells - 1);
      near[pixel] = Math.floor(centred);
      far[pixel] = Math.min(near[pixel] + 1, this.cells - 1);
      weight[pixel] = centred - near[pixel];
    }
    return {near, far, weight, first, end};
  }
}
