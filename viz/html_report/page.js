// The page around the pictures: which one is shown, what is chosen, what the address keeps of it.

const source = new EmbeddedSource();
const {settings} = source;
const withMaps = source.pictures.filter(({about}) => about?.models[0].maps.length);
const state = {
  picture: 0,
  wanted: withMaps.length > 0 ? firstWanted(withMaps[0].about.models[0].maps) : {},
  look: settings.look,
  split: settings.split,
};
let view = null;

const controls = document.getElementById('controls');
const mapChoices = new MapChoices(controls, (aspect, value) => {
  state.wanted[aspect] = value;
  refresh();
});
const lookChoices = new LookChoices(controls, settings.colormaps, (name, value) => {
  state.look = {...state.look, [name]: value};
  refresh();
});
const gallery = new Gallery(document.getElementById('index'), source.pictures, go);

/** Shows what is chosen of the picture that is shown. */
function refresh() {
  if (view) {
    const maps = view.maps();
    const {classes, models} = view.picture;
    const {aspects} = choose(maps, state.wanted);
    mapChoices.show(
        aspects, classes.map((each, i) => classText(each, models[0].probabilities[i])));
    const shown = view.show(state.wanted, state.look, state.split);
    lookChoices.show(state.look, {
      signed: shown.some(map => map.signed), unsigned: shown.some(map => !map.signed)});
  }
  remember();
}

function open(number) {
  state.picture = number;
  view?.close();
  view = null;
  source.pictures.forEach(({element}, i) => { element.hidden = i !== number; });
  const picture = source.picture(number);
  controls.hidden = !picture;
  if (picture) {
    const {element} = source.pictures[number];
    view = new PictureView(
        element.querySelector('.views'), picture, source.valuesOf(number), settings, split => {
          state.split = split;
          refresh();
        });
    element.classList.add('open');
  }
  gallery.mark(number);
}

function go(number) {
  open(number);
  refresh();
}

// The address: what a copy of it shows again. Words for people, classes by their index.

let remembering = 0;

/** Not at once: browsers allow some changes a second. */
function remember() {
  const kMilliseconds = 400;
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, '', `#${addressOf()}`), kMilliseconds);
}

function addressOf() {
  const words = new URLSearchParams({picture: state.picture + 1});
  if (view) {
    const {value: method} = choose(view.maps(), state.wanted).aspects.method;
    const {layer, head} = state.wanted;
    Object.entries({method, layer, head}).forEach(([key, value]) => words.set(key, value));
    const entry = view.picture.classes[state.wanted.class];
    if (entry) words.set('class', entry.index);
    if (state.split > 0) words.set('split', state.split);
  }
  return words;
}

/** Takes over what an address says and is possible here; false for one that says nothing. */
function recall(address) {
  const words = new URLSearchParams(address.replace(/^#/, ''));
  const number = Number(words.get('picture')) - 1;
  if (!source.pictures[number]) return false;
  open(number);
  for (const aspect of ['method', 'head']) {
    if (words.has(aspect)) state.wanted[aspect] = words.get(aspect);
  }
  const numberOf = (key, limit) => {
    const value = words.get(key);
    return value !== null && value !== '' && Number(value) >= 0 && Number(value) <= limit ?
        Number(value) : null;
  };
  state.wanted.layer = numberOf('layer', Infinity) ?? state.wanted.layer;
  state.split = numberOf('split', 1) ?? 0;
  const position =
      view?.picture.classes.findIndex(each => String(each.index) === words.get('class'));
  if (position >= 0) state.wanted.class = position;
  refresh();
  return true;
}

for (const element of document.querySelectorAll('.scripted')) element.classList.remove('scripted');
document.getElementById('index').hidden = source.pictures.length < 2;
controls.hidden = true;
document.addEventListener('submit', event => event.preventDefault());
document.getElementById('save-picture').addEventListener('click', () => view.savePicture());
document.getElementById('save-map').addEventListener('click', () => view.saveNumbers());
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();  // the address is the page's state
  document.getElementById('main').focus();
});
document.addEventListener('keydown', event => {
  if (event.target === document.body) gallery.step(event);
});
addEventListener('hashchange', () => recall(location.hash));
buildThemeSwitch();
if (source.pictures.length > 0 && !recall(location.hash)) {
  const first = Math.max(source.pictures.indexOf(withMaps[0]), 0);
  go(first);
}
