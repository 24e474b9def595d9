// The layers of the map that is shown, small and side by side. The slider is the same for the keyboard.

class LayerStrip {
  constructor(element, settings, onChoose) {
    Object.assign(this, {element, settings, onChoose, entries: []});
  }

  /** Of a pane whose map and look have been chosen. */
  show(pane, look) {
    const isKind = map => ['method', 'class', 'head'].every(aspect => map[aspect] === pane.map[aspect]);
    const maps = pane.model.maps.filter(isKind).sort((a, b) => a.layer - b.layer);
    // Each layer of a patch's row would be a request.
    const shown = maps.length > 1 && maps.every(map => !map.patch) ? maps : [];
    const isSame = this.look === look && this.entries.length === shown.length &&
        shown.every((map, i) => map === this.entries[i].map);
    if (!isSame) this.build(pane, shown, look);
    for (const {map, figure} of this.entries) {
      figure.classList.toggle('chosen', map === pane.map);
      const {element} = this;
      const {offsetTop: top, offsetHeight: height} = figure;
      if (map === pane.map && (top < element.scrollTop || top + height > element.scrollTop + element.clientHeight)) {
        element.scrollTop = top + (height - element.clientHeight) / 2;
      }
    }
  }

  build(pane, maps, look) {
    const kMilliseconds = 60;
    const kEdge = 112;
    const {width, height} = pane.picture;
    const size = [width, height].map(edge => Math.max(Math.round(edge * kEdge / Math.max(width, height)), 1));
    this.look = look;
    this.entries = maps.map(map => {
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = size;
      const figure = element('figure', '', canvas, element('figcaption', '', map.layer));
      figure.addEventListener('click', () => this.onChoose(map.layer));
      return {map, figure};
    });
    this.element.hidden = maps.length === 0;
    this.element.replaceChildren(...this.entries.map(({figure}) => figure));
    clearTimeout(this.waiting);  // a slider of the look asks for many
    this.waiting = setTimeout(() => this.draw(pane, look), kMilliseconds);
  }

  async draw({image, settings}, look) {
    const kFiner = 3;
    const entries = this.entries;
    await image.decode().catch(() => {});
    for (const {map, figure} of entries) {
      if (entries !== this.entries) return;
      const heat = document.createElement('canvas');
      const canvas = figure.querySelector('canvas');
      const {width, height} = canvas;
      // A fine map has more cells than the strip has pixels: each of these is a mean.
      [heat.width, heat.height] = [kFiner * width, kFiner * height];
      const {vertical, horizontal} = map.axes;
      const painter = new HeatPainter(vertical, horizontal, heat.width, heat.height, settings.unseenBrightness);
      map.values ??= map.read();
      painter.paint(heat.getContext('2d'), heatOf(map.values, map, look, this.settings), look);
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0, width, height);
      context.imageSmoothingQuality = 'high';
      context.drawImage(heat, 0, 0, width, height);
      await new Promise(done => setTimeout(done));  // the page's own events come first
    }
  }
}
