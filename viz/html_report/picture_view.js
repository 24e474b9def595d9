// One picture of the page: its overlay, its controls, the value under the pointer.

class PictureView {
  /** `page` is page.js's; this picture has its own copy of what is chosen. */
  constructor(article, about, page) {
    this.article = article;
    this.about = about;
    this.page = page;
    this.look = {...page.look};
    this.wanted = {...page.wanted};
    this.cell = null;
    this.buildOverlay();
    this.buildPanel();
    this.update();
  }

  buildOverlay() {
    this.image = this.article.querySelector('.original img');
    const [width, height] = ['width', 'height'].map(name => Number(this.image.getAttribute(name)));
    this.horizontal = new Axis(this.about.horizontal, width);
    this.vertical = new Axis(this.about.vertical, height);
    const views = this.article.querySelector('.views');
    views.append(document.getElementById('overlay').content.cloneNode(true));
    const find = selector => views.querySelector(`.overlay ${selector}`);
    this.canvas = find('canvas');
    for (const element of [this.image, this.canvas]) {
      element.style.aspectRatio = `${width} / ${height}`;
      element.style.width = `min(100%, ${2 * width}px, ${(70 * width / height).toFixed(1)}vh)`;
    }
    this.canvas.setAttribute(
        'aria-label', `${this.about.name}: heat map. Arrow keys move over its cells.`);
    this.caption = find('.caption');
    this.gradient = find('.gradient').getContext('2d');
    this.mark = find('.mark');
    this.ticks = [...views.querySelectorAll('.ticks span')];
    this.readout = find('.readout');
    this.canvas.addEventListener('pointermove', event => this.point(event));
    this.canvas.addEventListener('pointerdown', event => this.point(event));
    // A finger that is lifted leaves too, and what the keyboard chose stays while it may go on.
    this.canvas.addEventListener('pointerleave', event => {
      const isFocused = document.activeElement === this.canvas;
      if (event.pointerType === 'mouse' && !isFocused) this.select(null);
    });
    // Whoever came by a pointer has chosen already.
    this.canvas.addEventListener('focus', () => {
      if (this.canvas.matches(':focus-visible')) this.select(this.cell ?? this.middle());
    });
    this.canvas.addEventListener('blur', () => this.select(null));
    this.canvas.addEventListener('keydown', event => this.step(event));
  }

  buildPanel() {
    const panel = this.article.querySelector('.map-panel');
    panel.append(document.getElementById('map-panel').content.cloneNode(true));
    const [maps, looks] = panel.querySelectorAll('form');
    maps.setAttribute('aria-label', `Map over ${this.about.name}`);
    this.mapChoices = new MapChoices(maps, (aspect, value) => this.want(aspect, value));
    this.lookChoices =
        new LookChoices(looks, this.page.colormaps, (name, value) => this.restyle(name, value));
    this.note = panel.querySelector('.note');
    this.share = panel.querySelector('.share');
    panel.querySelector('.download').addEventListener('click', () => this.download());
  }

  want(aspect, value) {
    this.wanted[aspect] = value;
    this.update();
  }

  restyle(name, value) {
    this.look[name] = value;
    this.update();
  }

  /** On screen: from now on it is drawn. */
  async open() {
    if (this.isOpen) return;
    this.isOpen = true;
    const image = new Image();
    image.src = this.image.src;
    await image.decode();
    if (!this.isOpen) return;
    const [width, height] = [this.horizontal.shown, this.vertical.shown];
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext('2d', {willReadFrequently: true});
    this.context.drawImage(image, 0, 0, width, height);
    this.base = this.context.getImageData(0, 0, width, height);
    this.overlay = this.context.createImageData(width, height);
    this.article.classList.add('drawn');
    this.update();
  }

  /** Far off screen: its pixels and numbers are let go. */
  close() {
    this.isOpen = false;
    this.base = this.overlay = this.lines = this.map = this.heat = null;
    this.canvas.width = this.canvas.height = 1;
  }

  update() {
    const {map, aspects} = choose(this.about.maps, this.wanted);
    this.chosen = map;
    this.mapChoices.show(aspects, this.about.classes.map(classText));
    this.lookChoices.show(this.look, {signed: map.signed, unsigned: !map.signed});
    this.article.classList.toggle('beside', this.look.beside);
    this.caption.textContent = this.describe(map);
    this.note.textContent = map.note === undefined ? '' : this.about.notes[map.note];
    this.share.textContent = map.ownShare ? `The class token's own share: ${percent(map.ownShare)}` : '';
    if (!this.base || this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      if (this.base) this.draw();
    });
  }

  describe(map) {
    const name = map.class === null ? [] : [classText(this.about.classes[map.class])];
    return [...name, map.method, `layer ${map.layer}`, `head ${map.head}`].join(' \u00b7 ');
  }

  /** The chosen map's numbers, decoded once. */
  load() {
    if (this.map?.entry === this.chosen) return;
    this.lines ??= this.article.querySelector('.maps').textContent.split('\n');
    const values = valuesOf(this.lines[this.about.maps.indexOf(this.chosen)]);
    this.map = {entry: this.chosen, values};
  }

  draw() {
    this.load();
    this.heat = heatOf(this.map.values, this.chosen, this.look, this.page);
    drawHeat(
        this.base.data, this.overlay.data, this.heat, this.vertical, this.horizontal, this.look,
        this.page.unseenBrightness);
    this.drawOutline();
    this.drawScale();
    this.select(this.cell);
  }

  /** Into the overlay: outline_cells of viz/heat_overlay.h, at the page's size. */
  drawOutline() {
    if (this.heat.outlined.size === 0) return;
    const thickness =
        Math.max(2, Math.floor(Math.min(this.horizontal.shown, this.vertical.shown) / 360));
    const dark = Math.max(1, Math.floor(thickness / 3));
    const {context} = this;
    context.putImageData(this.overlay, 0, 0);
    context.save();
    context.lineCap = 'square';
    for (const [color, width] of [['#181818', thickness + 2 * dark], ['#fff', thickness]]) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.stroke(
          outlineOf(this.heat.outlined, this.vertical, this.horizontal, width / 2));
    }
    context.restore();
    this.overlay = context.getImageData(0, 0, this.canvas.width, this.canvas.height);
  }

  drawScale() {
    const {colors} = this.heat.table;
    const scale = this.gradient.createImageData(256, 1);
    for (let i = 0; i < 256; ++i) {
      scale.data.set([...colors.subarray(3 * i, 3 * i + 3), 255], 4 * i);
    }
    this.gradient.putImageData(scale, 0, 0);
    const {low, high} = this.heat.range;
    [low, (low + high) / 2, high].forEach((value, i) => {
      this.ticks[i].textContent = numberText(value);
    });
  }

  middle() {
    return {
      row: Math.floor(this.vertical.cells / 2), column: Math.floor(this.horizontal.cells / 2)};
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const pixel = (position, length, shown) => Math.floor(position / length * shown);
    const x = pixel(event.clientX - box.left, box.width, this.horizontal.shown);
    const y = pixel(event.clientY - box.top, box.height, this.vertical.shown);
    // A finger that began on the picture may have left it.
    if (x < 0 || y < 0 || x >= this.horizontal.shown || y >= this.vertical.shown) return;
    const row = this.vertical.cellAt(y);
    const column = this.horizontal.cellAt(x);
    if (row < 0 || column < 0) {
      this.select(null, 'not seen by the model');
    } else {
      this.select({row, column});
    }
  }

  step(event) {
    const rows = this.vertical.visibleCells();
    const columns = this.horizontal.visibleCells();
    const from = this.cell ?? this.middle();
    const moves = {
      ArrowUp: {row: from.row - 1},
      ArrowDown: {row: from.row + 1},
      ArrowLeft: {column: from.column - 1},
      ArrowRight: {column: from.column + 1},
      Home: {column: columns.first},
      End: {column: columns.last},
      PageUp: {row: rows.first},
      PageDown: {row: rows.last},
    };
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const {row, column} = {...from, ...moves[event.key]};
    const within = (value, {first, last}) => Math.min(Math.max(value, first), last);
    this.select({row: within(row, rows), column: within(column, columns)});
  }

  /** Marks a cell and says its value; null: none, with `text` instead. */
  select(cell, text = '') {
    this.cell = cell;
    this.mark.hidden = cell === null;
    this.readout.value = text || 'Point at the picture, or focus it and use the arrow keys.';
    if (!this.overlay || !this.heat) return;
    this.context.putImageData(this.overlay, 0, 0);
    if (cell === null) return;
    const index = cell.row * this.horizontal.cells + cell.column;
    this.readout.value =
        `row ${cell.row}, column ${cell.column}: ${numberText(this.map.values[index])}`;
    const share = this.heat.shares[index];
    this.mark.hidden = Number.isNaN(share);
    this.mark.style.left = `${100 * share}%`;
    const [left, right] = [0, 1].map(i => this.horizontal.edge(cell.column + i));
    const [top, bottom] = [0, 1].map(i => this.vertical.edge(cell.row + i));
    for (const [color, width] of [['#000', 3], ['#fff', 1]]) {
      this.context.strokeStyle = color;
      this.context.lineWidth = width;
      this.context.strokeRect(left, top, right - left, bottom - top);
    }
  }

  download() {
    this.load();
    const {values, entry} = this.map;
    const link = document.createElement('a');
    const name = this.about.name.replace(/^.*[/\\]/, '').replace(/[^\p{L}\p{N}._-]+/gu, '_');
    const position = entry.class === null ? '' : `.class${this.about.classes[entry.class].index}`;
    link.download = `${name}.${entry.method}.layer${entry.layer}.head-${entry.head}${position}.npy`;
    link.href = URL.createObjectURL(npyFile(values, this.vertical.cells, this.horizontal.cells));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}
