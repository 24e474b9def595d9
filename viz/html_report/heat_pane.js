// One model's map over a picture: drawn, pointed at, added up under a rectangle. Panes know neither
// each other nor where maps come from.

const kZoomStep = 1.5;

class HeatPane {
  /**
   * `picture` and `model` as `pictureOf` makes them, a map's values being there at once or promised;
   * `settings`: page_data.cpp.
   * `on`: called with what is done here: point(place {x, y} or null, "where it is no
   * cell"), area({left, top, right, bottom} or null) and split(share), all places of 0 to 1,
   * choose(entry) for the class of a mark, and where there is one pick({row, column}) for a cell
   * that is clicked, or entered.
   */
  constructor(host, picture, model, settings, on) {
    Object.assign(this, {picture, model, settings, on, ...model.maps[0].axes});
    this.heats = new Map();
    host.append(document.getElementById('pane').content.cloneNode(true));
    this.figure = host.lastElementChild;
    const find = selector => this.figure.querySelector(selector);
    this.image = find('img');
    this.image.src = picture.image;
    this.canvas = find('.heat');
    this.context = this.canvas.getContext('2d');
    this.surface = find('.surface');
    this.cellMark = find('.mark.cell');
    this.areaMark = find('.mark.area');
    this.slider = find('.split');
    this.caption = find('.caption');
    this.measure = find('.measure');
    this.tip = find('.tip');
    this.gradient = find('.gradient').getContext('2d');
    this.needle = find('.needle');
    this.ticks = [...this.figure.querySelectorAll('.ticks span')];
    this.readout = find('.readout');
    this.sum = find('.sum');
    this.note = find('.note');
    const {width, height} = picture;
    this.stage = find('.stage');
    const window = this.window = find('.window');
    window.style.aspectRatio = this.stage.style.aspectRatio = `${width} / ${height}`;
    window.style.width = `min(100%, ${2 * width}px, ${(70 * width / height).toFixed(1)}vh)`;
    this.zoomed = 1;
    const name = [picture.name, model.name].filter(Boolean).join(', ');
    this.surface.setAttribute(
        'aria-label',
        `${name}: heat map. Arrow keys move over its cells, with shift they span a rectangle, ` +
            'escape removes it.');
    this.slider.setAttribute('aria-label', `${name}: where the heat begins`);
    this.listen();
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(this.stage);
    this.mark(null);
    this.markArea(null);
    this.views = new ZoomViews(find('.view-frames'), find('.view-list'), model.views, model.finder);
    for (const mark of picture.marks) this.stage.append(...markOf(mark, on.choose));
  }

  listen() {
    const {surface, slider} = this;
    surface.addEventListener('pointermove', event => this.point(event));
    surface.addEventListener('pointerdown', event => {
      this.anchor = null;
      this.on.area(null);
      this.point(event);
      if (event.button !== 0 || !this.cell) return;
      this.anchor = this.cell;
      this.isDragging = true;
      surface.setPointerCapture(event.pointerId);
    });
    surface.addEventListener('pointerup', event => {
      if (this.isDragging && event.button === 0 && !this.area) this.on.pick?.(this.anchor);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      surface.addEventListener(end, () => { this.isDragging = false; });
    }
    // A finger that is lifted leaves too, and what the keyboard chose stays while it may go on.
    surface.addEventListener('pointerleave', event => {
      if (event.pointerType === 'mouse' && document.activeElement !== surface) this.on.point(null);
    });
    // A focus by pointer comes with a place.
    surface.addEventListener('focus', () => {
      if (surface.matches(':focus-visible') && !this.cell) this.pointAt(this.middle());
    });
    surface.addEventListener('blur', event => {
      this.anchor = null;
      if (!event.relatedTarget?.matches('.surface')) this.on.point(null);
    });
    surface.addEventListener('keydown', event => this.step(event));
    surface.addEventListener('wheel', event => {
      if (!event.ctrlKey) return;  // fingers on a touch pad that spread have it, too
      event.preventDefault();
      this.zoom(this.zoomed * Math.exp(-event.deltaY / 100), event);
    }, {passive: false});
    const [out, into] = this.figure.querySelectorAll('.zoom button');
    out.addEventListener('click', () => this.zoom(this.zoomed / kZoomStep));
    into.addEventListener('click', () => this.zoom(this.zoomed * kZoomStep));
    slider.addEventListener('input', () => this.on.split(Number(slider.value)));
  }

  close() {
    this.resizing.disconnect();
    cancelAnimationFrame(this.frame);
    this.figure.remove();
  }

  /** Keeps the point of `at` where it is, or the middle; the window's own scrolling moves the picture. */
  zoom(wanted, at) {
    const kMost = 16;
    const {window, stage} = this;
    const frame = window.getBoundingClientRect();
    const [x, y] = at ? [at.clientX - frame.left, at.clientY - frame.top] : [frame.width / 2, frame.height / 2];
    const [left, top] = [window.scrollLeft + x, window.scrollTop + y];
    const factor = Math.min(Math.max(wanted, 1), kMost) / this.zoomed;
    this.zoomed *= factor;
    if (this.zoomed < 1.01) this.zoomed = 1;
    this.figure.classList.toggle('zoomed', this.zoomed > 1);
    stage.style.width = `${100 * this.zoomed}%`;
    window.scrollTo(left * factor - x, top * factor - y);
    this.figure.querySelector('.zoom output').value = `${Math.round(100 * this.zoomed)}\u00a0%`;
  }

  // The drawing.

  /** `caption` says what map it is. */
  show(map, look, caption, note) {
    if (this.look !== look) this.heats.clear();
    this.map = map;
    this.look = look;
    this.measure.textContent = this.measureText(map);
    if (map.axes.vertical !== this.vertical || map.axes.horizontal !== this.horizontal) {
      Object.assign(this, map.axes);  // of another view of the picture
      this.painter = null;
      this.resize();
    }
    this.caption.textContent = caption;
    this.note.textContent = note;
    if (map.patch && !(map.values instanceof Float32Array)) this.blank();
    this.request();
  }

  /** Values that the server computes take seconds: the map before does not stand under their name meanwhile. */
  blank() {
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.figure.classList.remove('drawn');
    for (const tick of this.ticks) tick.textContent = '';
    this.mark(this.place);
  }

  /** No more pixels than are on the screen, than the picture has, and than are drawn in time. */
  resize() {
    const kMostPixels = 700_000;
    const {width, height} = this.picture;
    const shown = Math.round(this.canvas.clientWidth * devicePixelRatio);
    if (shown === 0) return;
    const scale = Math.min(1, shown / width, Math.sqrt(kMostPixels / (width * height)));
    const size = [Math.round(width * scale), Math.round(height * scale)].map(n => Math.max(n, 1));
    if (this.painter?.width === size[0] && this.painter.height === size[1]) return;
    [this.canvas.width, this.canvas.height] = size;
    this.painter = this.painterOf(...size);
    if (this.map) this.request();
  }

  /** What the colours stand for. */
  measureText({quantity, additive, class: position}) {
    const of = additive && position !== null ? ` of ${visible(this.picture.classes[position].label || 'the class')}` : '';
    const words = `${quantity}${of}`;
    return `${words.charAt(0).toUpperCase()}${words.slice(1)}, share of all patches`;
  }

  painterOf(width, height) {
    return new HeatPainter(
        this.vertical, this.horizontal, width, height, this.settings.unseenBrightness);
  }

  request() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** The chosen map ready to be drawn; nothing while its values are on their way. */
  heat() {
    const {map} = this;
    const known = this.heats.get(map);
    if (known) return known;
    const values = map.values ??= map.read();
    if (values instanceof Promise) {
      values.then(found => {
        map.values = found;
        this.request();
      });
      return null;
    }
    const heat = heatOf(values, map, this.look, this.settings);
    this.heats.set(map, heat);
    return heat;
  }

  draw() {
    const heat = this.painter && this.heat();
    if (!heat) return;
    this.painter.paint(this.context, heat, this.look);
    this.figure.classList.add('drawn');
    this.drawScale(heat);
    this.mark(this.place, this.elsewhere);
    this.markArea(this.area);
  }

  drawScale({table: {colors, name}, range: {low, high}, sum}) {
    [low, (low + high) / 2, high].forEach((value, i) => {
      this.ticks[i].textContent = shareText(value, sum);
    });
    if (this.scaleName === name) return;
    this.scaleName = name;
    const scale = this.gradient.createImageData(256, 1);
    for (let i = 0; i < 256; ++i) {
      scale.data.set([...colors.subarray(3 * i, 3 * i + 3), 255], 4 * i);
    }
    this.gradient.putImageData(scale, 0, 0);
  }

  /** Heat from `share` of the width on, the picture before it. */
  split(share) {
    this.slider.value = String(share);
    this.slider.setAttribute('aria-valuetext', `picture ${Math.round(100 * share)} percent`);
    this.canvas.style.clipPath = share > 0 ? `inset(0 0 0 ${100 * share}%)` : '';
  }

  // The values that are read from it.

  middle() {
    return {
      row: this.vertical.cellNear(0.5), column: this.horizontal.cellNear(0.5)};
  }

  /** Tells where a cell of this pane is. */
  pointAt({row, column}) {
    const {horizontal, vertical} = this;
    this.on.point({
      x: Math.min(Math.max(horizontal.edge(column + 0.5), 0), 1),
      y: Math.min(Math.max(vertical.edge(row + 0.5), 0), 1)});
  }

  point(event) {
    const box = this.surface.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (event.clientY - box.top) / box.height;
    if (this.isDragging) {
      this.span({row: this.vertical.cellNear(y), column: this.horizontal.cellNear(x)});
    } else if (x >= 0 && y >= 0 && x < 1 && y < 1) {  // a finger may have left the picture
      this.on.point({x, y});
    }
  }

  /** From the anchor to a cell; a single cell is no rectangle. */
  span(cell) {
    const {anchor, horizontal, vertical} = this;
    this.pointAt(cell);
    if (cell.row === anchor.row && cell.column === anchor.column) {
      this.on.area(null);
      return;
    }
    const edges = (axis, a, b) =>
        [Math.min(a, b), Math.max(a, b) + 1].map(each => Math.min(Math.max(axis.edge(each), 0), 1));
    const [left, right] = edges(horizontal, anchor.column, cell.column);
    const [top, bottom] = edges(vertical, anchor.row, cell.row);
    this.on.area({left, top, right, bottom});
  }

  step(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === 'Escape') {
      this.anchor = null;
      this.on.area(null);
      return;
    }
    const zooms = {'+': kZoomStep, '=': kZoomStep, '-': 1 / kZoomStep, '0': 1 / this.zoomed};
    if (event.key in zooms) {
      this.zoom(this.zoomed * zooms[event.key]);
      return;
    }
    if (event.key === 'Enter' && this.cell) {
      this.on.pick?.(this.cell);
      return;
    }
    const {horizontal, vertical} = this;
    const from = this.cell ?? this.middle();
    const moves = {
      ArrowUp: {row: from.row - 1},
      ArrowDown: {row: from.row + 1},
      ArrowLeft: {column: from.column - 1},
      ArrowRight: {column: from.column + 1},
      Home: {column: horizontal.first},
      End: {column: horizontal.last},
      PageUp: {row: vertical.first},
      PageDown: {row: vertical.last},
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const {row, column} = {...from, ...moves[event.key]};
    const cell = {row: vertical.within(row), column: horizontal.within(column)};
    this.anchor = event.shiftKey ? this.anchor ?? from : null;
    if (this.anchor) this.span(cell); else this.pointAt(cell);
  }

  /** Marks the cell at a place, which another pane may have been pointed at, and says its value. */
  mark(place) {
    this.place = place;
    const row = place ? this.vertical.cellAt(place.y) : -1;
    const column = place ? this.horizontal.cellAt(place.x) : -1;
    this.cell = row < 0 || column < 0 ? null : {row, column};
    this.cellMark.hidden = this.needle.hidden = this.tip.hidden = !this.cell;
    if (!this.cell) {
      this.readout.value = place ? 'not seen by the model' : this.hint();
      return;
    }
    const edges = (axis, cell) => [axis.edge(cell), axis.edge(cell + 1)];
    this.lay(this.cellMark, edges(this.horizontal, column), edges(this.vertical, row));
    const heat = this.map && this.heats.get(this.map);
    if (!heat) {
      this.needle.hidden = this.tip.hidden = true;
      this.readout.value = '';
      return;
    }
    const index = row * this.horizontal.cells + column;
    const span = spanText({first: row, last: row}, {first: column, last: column});
    this.tip.textContent = shareText(heat.values[index], heat.sum);
    const {left, top, width} = this.cellMark.style;
    const isRight = place.x > 0.5;
    Object.assign(this.tip.style, {
      left: isRight ? 'auto' : left, right: isRight ? `${100 - parseFloat(left) - parseFloat(width)}%` : 'auto', top});
    this.tip.classList.toggle('below', row - this.vertical.first < 2);
    this.readout.value = `${span}: ${numberText(heat.values[index])}, ${this.tip.textContent} of all patches`;
    this.needle.hidden = Number.isNaN(heat.shares[index]);
    this.needle.style.left = `${100 * heat.shares[index]}%`;
  }

  hint() {
    const pick = this.on.pick         ? 'Click: what a patch attends to, Escape: back. ' :
        this.picture.marks.length > 0 ? 'Click the text at a cross: its class. ' :
                                        '';
    return `Point at a patch: its share. ${pick}Drag: the sum of an area. ` +
        'Keys: arrows, with shift an area, + and \u2212 zoom.';
  }

  /** Marks a rectangle, and says what the cells hold whose middle lies in it. */
  markArea(area) {
    this.area = area;
    this.areaMark.hidden = !area;
    this.sum.value = '';
    if (!area) return;
    this.lay(this.areaMark, [area.left, area.right], [area.top, area.bottom]);
    const heat = this.map && this.heats.get(this.map);
    if (heat) this.sum.value = this.sumText(heat.values, area);
  }

  sumText(values, area) {
    const rows = this.vertical.cellsBetween(area.top, area.bottom);
    const columns = this.horizontal.cellsBetween(area.left, area.right);
    if (rows.first > rows.last || columns.first > columns.last) return 'not seen by the model';
    let sum = 0;
    for (let row = rows.first; row <= rows.last; ++row) {
      for (let column = columns.first; column <= columns.last; ++column) {
        const value = values[row * this.horizontal.cells + column];
        if (Number.isFinite(value)) sum += value;
      }
    }
    const {total, additive} = this.map;
    const text = `${spanText(rows, columns)}: ${numberText(sum)} together`;
    if (typeof total !== 'number') return text;
    const share = total > 0 ? ` ${percent(sum / total)}` : '';
    const whole = additive ? 'this layer adds to the logit' : 'all tokens hold';
    return `${text},${share} of the ${numberText(total)} that ${whole}`;
  }

  lay(mark, [left, right], [top, bottom]) {
    const within = places => places.map(place => 100 * Math.min(Math.max(place, 0), 1));
    [left, right] = within([left, right]);
    [top, bottom] = within([top, bottom]);
    Object.assign(mark.style, {
      left: `${left}%`, top: `${top}%`, width: `${right - left}%`, height: `${bottom - top}%`});
  }

  // The files that can be kept of it.

  /** The picture at its own size with what is shown over it, and the caption below. */
  async toCanvas() {
    await this.image.decode();
    const {width, height} = this.picture;
    const size = Math.max(13, Math.round(width / 50));
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = height + 2 * size;
    const context = canvas.getContext('2d');
    context.fillStyle = '#fff';
    context.fillRect(0, 0, width, canvas.height);
    context.drawImage(this.image, 0, 0, width, height);
    const layer = document.createElement('canvas');
    [layer.width, layer.height] = [width, height];
    this.painterOf(width, height).paint(layer.getContext('2d'), this.heat(), this.look);
    const from = Math.round(Number(this.slider.value) * width);
    if (from < width) {
      context.drawImage(layer, from, 0, width - from, height, from, 0, width - from, height);
    }
    this.views.draw(context, this.picture);
    for (const mark of this.picture.marks) drawMark(context, this.picture, mark, size);
    if (this.area) {
      const {left, top, right, bottom} = this.area;
      drawFrame(context, this.picture, {left, top, width: right - left, height: bottom - top});
    }
    context.fillStyle = '#1c2430';
    context.font = `${size}px system-ui, sans-serif`;
    context.fillText(this.caption.textContent, size / 2, height + 1.4 * size, width - size);
    return canvas;
  }

  npy() {
    return npyFile(this.heat().values, this.vertical.cells, this.horizontal.cells);
  }
}
