// The views of a picture, of which its answer is a mixture (docs/cli.md): a list, and a frame for each over the
// picture. A class has no frame but a mark, where the views' evidence for it is densest.

/** A cross, and beside it, towards the middle of the picture, the class. */
function markOf({x, y, label, entry}, onChoose) {
  const cross = element('div', 'cross');
  Object.assign(cross.style, {left: `${100 * x}%`, top: `${100 * y}%`});
  const button = element('button', 'at-cross', label);
  button.type = 'button';
  button.addEventListener('click', () => onChoose(entry));
  button.style[x < 0.5 ? 'left' : 'right'] = `${100 * Math.min(x, 1 - x)}%`;
  button.style[y < 0.5 ? 'top' : 'bottom'] = `${100 * Math.min(y, 1 - y)}%`;
  button.style.maxWidth = `calc(${100 * Math.max(x, 1 - x)}% - 0.8rem)`;
  return [cross, button];
}

/** The same on a canvas, below whose picture there may be more. */
function drawMark(context, picture, {x, y, label}, size) {
  const [left, top] = [Math.round(x * picture.width), Math.round(y * picture.height)];
  for (const [color, rim] of [['#000', 1], ['#fff', 0]]) {
    const [arm, half] = [Math.round(0.7 * size) + rim, 1 + rim];
    context.fillStyle = color;
    context.fillRect(left - arm, top - half, 2 * arm, 2 * half);
    context.fillRect(left - half, top - arm, 2 * half, 2 * arm);
  }
  const gap = size / 2;
  context.font = `${size}px system-ui, sans-serif`;
  const width = Math.min(context.measureText(label).width + size, Math.max(x, 1 - x) * picture.width - gap);
  const from = [x < 0.5 ? left + gap : left - gap - width, y < 0.5 ? top + gap : top - gap - 1.5 * size];
  context.fillStyle = '#000c';
  context.fillRect(...from, width, 1.5 * size);
  context.fillStyle = '#fff';
  context.fillText(label, from[0] + size / 2, from[1] + 1.1 * size, width - size);
}

/** On a page; edges are shares of the picture's. */
function frameOf({left, top, width, height, label}) {
  const frame = element('div', 'box', element('span', '', label));
  for (const [key, share] of Object.entries({left, top, width, height})) frame.style[key] = `${100 * share}%`;
  return frame;
}

/** The same on a canvas, without the label. */
function drawFrame(context, picture, {left, top, width, height}, {thickness = 2, opacity = 1} = {}) {
  context.save();
  context.globalAlpha = opacity;
  for (const [color, more] of [['#000', 2], ['#fff', 0]]) {
    context.strokeStyle = color;
    context.lineWidth = thickness + more;
    context.strokeRect(left * picture.width, top * picture.height, width * picture.width, height * picture.height);
  }
  context.restore();
}

class ZoomViews {
  /** In `frames`, over the picture, and in `list`; `views` as `viewsOf` gives them, `finder`: a model. */
  constructor(frames, list, views, finder) {
    Object.assign(this, {frames, list, views});
    this.isShown = false;
    this.rows = views.map(view => {
      const frame = frameOf(view);
      const {thickness, opacity} = this.strokeOf(view);
      frame.style.borderWidth = `${thickness}px`;
      frame.style.setProperty('--opacity', opacity);
      const {left, top, width, height} = view.box;
      const place = `${width}x${height}+${left}+${top}, weight ${percent(view.weight)}`;
      const button = element('button', 'row', ...rowOf(view.entry, view.weight, place));
      button.type = 'button';
      button.setAttribute('aria-pressed', 'false');
      button.addEventListener('click', () => this.mark(button.ariaPressed === 'true' ? null : button));
      return {frame, button};
    });
    // The weightiest lies uppermost.
    frames.replaceChildren(...this.rows.map(({frame}) => frame).reverse());
    list.querySelector('.note').textContent =
        `${views.length} views of the picture, found by ${finder}: the best class of each, its probability, the box ` +
        '(WIDTHxHEIGHT+LEFT+TOP), and the weight in the answer, which bars and frames show, too. A click marks a ' +
        'view\u2019s frame.';
    list.querySelector('ol').append(...this.rows.map(({button}) => element('li', '', button)));
  }

  strokeOf({strength}) {
    return {thickness: 1 + 4 * strength, opacity: 0.4 + 0.6 * strength};
  }

  show(isShown) {
    this.isShown = isShown && this.views.length > 0;
    this.frames.hidden = this.list.hidden = !this.isShown;
  }

  /** The frame of a button; none for null. */
  mark(chosen) {
    for (const {frame, button} of this.rows) {
      frame.classList.toggle('chosen', button === chosen);
      button.setAttribute('aria-pressed', String(button === chosen));
    }
  }

  draw(context, picture) {
    if (!this.isShown) return;
    for (const view of [...this.views].reverse()) drawFrame(context, picture, view, this.strokeOf(view));
  }
}
