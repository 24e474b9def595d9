// Which maps are shown, and how. A map has four aspects; what can be chosen of each depends on
// those before it, so that only maps that exist can be asked for.

const kAspects = ['method', 'class', 'layer', 'head'];

function distinct(values) {
  const all = [...new Set(values)];
  return all.every(value => typeof value === 'number') ? all.sort((a, b) => a - b) : all;
}

/** The value that is wanted, else the nearest number, else the first. */
function nearest(values, wanted) {
  if (values.includes(wanted) || typeof wanted !== 'number') {
    return values.includes(wanted) ? wanted : values[0];
  }
  const distance = value => typeof value === 'number' ? Math.abs(value - wanted) : Infinity;
  return values.reduce((best, value) => distance(value) < distance(best) ? value : best, values[0]);
}

/** {map, aspects: {method: {values, value}, ...}}: what comes nearest to `wanted`. */
function choose(maps, wanted) {
  const aspects = {};
  let left = maps;
  for (const aspect of kAspects) {
    const values = distinct(left.map(map => map[aspect]));
    const value = nearest(values, wanted[aspect]);
    aspects[aspect] = {values, value};
    left = left.filter(map => map[aspect] === value);
  }
  return {map: left[0], aspects};
}

/** What is shown at first: method, class and head of the first map, at their last layer. */
function firstWanted(maps) {
  const {method, class: position, head} = maps[0];
  const layers = maps.filter(map => map.method === method).map(map => map.layer);
  return {method, class: position ?? 0, layer: Math.max(...layers), head};
}

let nextControl = 0;

/** A <select>, or its only choice as text. `options`: [[value, text], ...]. */
class Choice {
  constructor(element, onChange) {
    this.element = element;
    this.select = element.querySelector('select');
    this.only = element.querySelector('.only');
    this.options = [];
    this.select.id = `choice-${++nextControl}`;
    element.querySelector('label').htmlFor = this.select.id;
    this.select.addEventListener('change', () => onChange(this.options[this.select.value][0]));
  }

  show(options, value) {
    this.element.hidden = options.length === 0;
    this.select.hidden = options.length < 2;
    this.only.hidden = options.length !== 1;
    this.only.textContent = options.length === 1 ? options[0][1] : '';
    const known = this.options.length === options.length &&
        options.every(([, text], i) => text === this.options[i][1]);
    if (!known) {
      this.select.replaceChildren(...options.map(([, text], i) => new Option(text, String(i))));
    }
    this.options = options;
    this.select.value = String(options.findIndex(([option]) => option === value));
  }
}

/** Layers on a slider, one after the other by its button. */
class LayerScrubber {
  constructor(element, onChange) {
    this.element = element;
    this.slider = element.querySelector('input');
    this.button = element.querySelector('.play');
    this.text = element.querySelector('output');
    this.onChange = onChange;
    this.slider.addEventListener('input', () => this.go(Number(this.slider.value)));
    this.slider.addEventListener('pointerdown', () => this.stop());
    this.button.addEventListener('click', () => this.timer ? this.stop() : this.play());
  }

  show({values, value}) {
    this.values = values;
    const at = values.indexOf(value);
    this.slider.max = String(values.length - 1);
    this.slider.value = String(at);
    this.slider.setAttribute('aria-valuetext', `layer ${value}`);
    this.slider.disabled = this.button.disabled = values.length < 2;
    this.text.value = String(value);
    this.element.hidden = values.length < 2;
    if (values.length < 2) this.stop();
  }

  go(at) {
    this.onChange(this.values[at]);
  }

  play() {
    const kMilliseconds = 250;
    this.timer = setInterval(() => {
      this.go((Number(this.slider.value) + 1) % this.values.length);
    }, kMilliseconds);
    this.button.setAttribute('aria-pressed', 'true');
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.setAttribute('aria-pressed', 'false');
  }
}

/** The four aspects' controls in a form. */
class MapChoices {
  constructor(form, onChange) {
    this.choices = {};
    for (const aspect of kAspects.filter(each => each !== 'layer')) {
      this.choices[aspect] = new Choice(
          form.querySelector(`[data-aspect=${aspect}]`), value => onChange(aspect, value));
    }
    this.layers =
        new LayerScrubber(form.querySelector('.layers'), value => onChange('layer', value));
  }

  /** `classes` are the names of what the aspect `class` counts. */
  show(aspects, classes) {
    const textOf = (aspect, value) => aspect !== 'class' ? String(value) :
        value === null                                   ? 'the same for all' :
                                                           classes[value];
    for (const [aspect, choice] of Object.entries(this.choices)) {
      const {values, value} = aspects[aspect];
      choice.show(values.map(each => [each, textOf(aspect, each)]), value);
    }
    this.layers.show(aspects.layer);
  }
}

const kSigns = ['both', 'positive', 'absolute'].map(sign => [sign, sign]);

/** The controls of opacity, sign and colours in a form. */
class LookChoices {
  constructor(form, colormaps, onChange) {
    this.opacity = form.elements.opacity;
    this.opacity.addEventListener('input', () => onChange('opacity', Number(this.opacity.value)));
    this.colormaps = colormaps.map(table => [table.name, table.name]);
    this.choices = {};
    for (const kind of ['sign', 'colormap', 'signedColormap']) {
      this.choices[kind] = new Choice(
          form.querySelector(`[data-look=${kind}]`), value => onChange(kind, value));
    }
  }

  /** Only what the signed and unsigned maps, where there are any, need. */
  show(look, {signed, unsigned}) {
    const amount = Math.round(100 * look.opacity);
    this.opacity.value = String(look.opacity);
    this.opacity.setAttribute('aria-valuetext', `${amount} percent`);
    this.opacity.closest('.field').querySelector('.amount').textContent = `${amount}\u00a0%`;
    const isBoth = look.sign === 'both';
    const {sign, colormap, signedColormap} = this.choices;
    sign.show(signed ? kSigns : [], look.sign);
    colormap.show(unsigned || !isBoth ? this.colormaps : [], look.colormap);
    signedColormap.show(signed && isBoth ? this.colormaps : [], look.signedColormap);
  }
}

/** The form beside the views of a picture: what is wanted of its maps, how they look, what is kept of them. */
class ViewControls {
  /** `onChange()` after each choice; what is chosen is in `wanted`, `look`, `split` and `framesViews`. */
  constructor(settings, onChange) {
    this.form = document.getElementById('controls');
    this.wanted = {};
    this.look = settings.look;
    this.split = settings.split;
    this.framesViews = false;
    this.view = null;
    this.methods = [];  // that can be asked for beside the methods of the maps at hand
    this.maps = new MapChoices(this.form, (aspect, value) => {
      this.wanted[aspect] = value;
      onChange();
    });
    this.strip = new LayerStrip(this.form.querySelector('.strip'), settings, layer => {
      this.wanted.layer = layer;
      onChange();
    });
    this.looks = new LookChoices(this.form, settings.colormaps, (name, value) => {
      this.look = {...this.look, [name]: value};
      onChange();
    });
    const {views} = this.form.elements;
    views.addEventListener('input', () => {
      this.framesViews = views.checked;
      onChange();
    });
    /** For a view, whose splits are here. */
    this.onSplit = share => {
      this.split = share;
      onChange();
    };
    this.form.hidden = true;
    document.addEventListener('submit', event => event.preventDefault());
    const button = (id, act) => document.getElementById(id).addEventListener('click', act);
    button('save-picture', () => this.view.savePicture());
    button('save-map', () => this.view.saveNumbers());
  }

  /** Shows what is chosen in a PictureView, beside its picture, and offers what can be chosen there. */
  show(view) {
    this.view = view;
    const about = view.panes[0].figure.closest('article').querySelector('.about');
    if (this.form.parentElement !== about) about.insertBefore(this.form, about.querySelector('.command'));
    const {classes, models} = view.picture;
    const {aspects} = choose(view.maps(), this.wanted);
    const {method} = aspects;
    method.values = distinct([...method.values, ...this.methods]);
    if (this.methods.includes(this.wanted.method)) method.value = this.wanted.method;
    this.maps.show(aspects, classes.map((each, i) => classText(each, models[0].probabilities[i])));
    const shown = view.show(this.wanted, this.look, this.split);
    const {views} = this.form.elements;
    views.checked = this.framesViews;
    views.closest('.field').hidden = models.every(model => model.views.length === 0);
    view.showViews(this.framesViews);
    this.strip.show(view.panes[0], this.look);
    this.looks.show(this.look, {
      signed: shown.some(map => map.signed), unsigned: shown.some(map => !map.signed)});
  }
}
