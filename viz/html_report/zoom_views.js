// The looks at parts of a picture, of which its answer is a mixture (docs/cli.md): a list, and a frame for each over
// the picture. Places of classes have the same frames.

/** On a page; edges are shares of the picture's. `name`: an element. */
function frameOf({left, top, width, height}, name) {
  const frame = element('div', 'box', name);
  for (const [key, share] of Object.entries({left, top, width, height})) frame.style[key] = `${100 * share}%`;
  return frame;
}

/** The same on a canvas, below whose picture there may be more. */
function drawFrame(context, picture, {left, top, width, height}, {thickness = 2, opacity = 1, name = '', size = 0} = {}) {
  const [x, y] = [left * picture.width, top * picture.height];
  context.save();
  context.globalAlpha = opacity;
  for (const [color, more] of [['#000', 2], ['#fff', 0]]) {
    context.strokeStyle = color;
    context.lineWidth = thickness + more;
    context.strokeRect(x, y, width * picture.width, height * picture.height);
  }
  if (name) {
    context.font = `${size}px system-ui, sans-serif`;
    context.fillStyle = '#000c';
    context.fillRect(x, y, context.measureText(name).width + size, 1.5 * size);
    context.fillStyle = '#fff';
    context.fillText(name, x + size / 2, y + 1.1 * size);
  }
  context.restore();
}

class CloserLooks {
  /** In `frames`, over the picture, and in `list`; `looks` as `looksOf` gives them, `model`: that looked. */
  constructor(frames, list, looks, model) {
    Object.assign(this, {frames, list, looks});
    this.isShown = false;
    this.rows = looks.map(look => {
      const frame = frameOf(look, element('span', '', look.label));
      const {thickness, opacity} = this.strokeOf(look);
      frame.style.borderWidth = `${thickness}px`;
      frame.style.setProperty('--opacity', opacity);
      const {left, top, width, height} = look.box;
      const place = `${height}x${width} at ${left},${top}, weight ${percent(look.weight)}`;
      const button = element('button', 'row', ...rowOf(look.entry, look.weight, place));
      button.type = 'button';
      button.setAttribute('aria-pressed', 'false');
      button.addEventListener('click', () => this.mark(button.ariaPressed === 'true' ? null : button));
      return {frame, button};
    });
    // The weightiest lies uppermost.
    frames.replaceChildren(...this.rows.map(({frame}) => frame).reverse());
    list.querySelector('.note').textContent =
        `${looks.length} looks at parts of the picture${model ? ` by ${model}` : ''}: the best class of each, its ` +
        'probability, the box (height x width at left,top), and the weight in the answer, which bars and frames show, ' +
        'too. A click marks a look\u2019s frame.';
    list.querySelector('ol').append(...this.rows.map(({button}) => element('li', '', button)));
  }

  strokeOf({strength}) {
    return {thickness: 1 + 4 * strength, opacity: 0.4 + 0.6 * strength};
  }

  show(isShown) {
    this.isShown = isShown && this.looks.length > 0;
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
    for (const look of [...this.looks].reverse()) drawFrame(context, picture, look, this.strokeOf(look));
  }
}
