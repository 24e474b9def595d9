// The page around the pictures: which one is shown, what is chosen, what the address keeps of it.

const source = new EmbeddedSource();
const {settings} = source;
const first = Math.max(source.pictures.findIndex(({failed}) => !failed), 0);
let number = 0;   // of the picture that is shown
let view = null;
let classes = null;  // of its classes, the list

const controls = new ViewControls(settings, refresh);
const gallery = new Gallery(document.getElementById('index'), source.pictures, go);

function refresh() {
  if (view) {
    controls.show(view);
    classes.mark(view.shownClass()?.index);
  }
  remember();
}

function open(chosen) {
  number = chosen;
  view?.close();
  view = null;
  source.pictures.forEach(({element}, i) => { element.hidden = i !== number; });
  const read = source.read(number);
  controls.form.hidden = !read;
  if (read) {
    const {answer, picture} = read;
    const {element} = source.pictures[number];
    const positionOf = entry => picture.classes.findIndex(({index}) => index === entry.index);
    const explain = entry => {
      if (positionOf(entry) < 0) return;
      controls.wanted.class = positionOf(entry);
      refresh();
    };
    view = new PictureView(element.querySelector('.views'), picture, settings, controls.onSplit, explain);
    classes = new ClassList(
        element.querySelector('.classes'), answer, settings.models, entry => positionOf(entry) >= 0, explain);
    element.classList.add('open');
  }
  gallery.mark(number);
}

function go(chosen) {
  open(chosen);
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
  const words = new URLSearchParams({picture: number + 1});
  if (view) {
    const {wanted, split} = controls;
    const {value: method} = choose(view.maps(), wanted).aspects.method;
    const {layer, head} = wanted;
    Object.entries({method, layer, head}).forEach(([key, value]) => words.set(key, value));
    const entry = view.picture.classes[wanted.class];
    if (entry) words.set('class', entry.index);
    if (split > 0) words.set('split', split);
  }
  return words;
}

/** Takes over what an address says and is possible here; false for one that says nothing. */
function recall(address) {
  const words = new URLSearchParams(address.replace(/^#/, ''));
  const chosen = Number(words.get('picture')) - 1;
  if (!source.pictures[chosen]) return false;
  open(chosen);
  const {wanted} = controls;
  for (const aspect of ['method', 'head']) {
    if (words.has(aspect)) wanted[aspect] = words.get(aspect);
  }
  const numberOf = (key, limit) => {
    const value = words.get(key);
    return value !== null && value !== '' && Number(value) >= 0 && Number(value) <= limit ?
        Number(value) : null;
  };
  wanted.layer = numberOf('layer', Infinity) ?? wanted.layer;
  controls.split = numberOf('split', 1) ?? 0;
  const position =
      view?.picture.classes.findIndex(each => String(each.index) === words.get('class'));
  if (position >= 0) wanted.class = position;
  refresh();
  return true;
}

for (const element of document.querySelectorAll('.scripted')) element.classList.remove('scripted');
document.getElementById('index').hidden = source.pictures.length < 2;
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();  // the address is the page's state
  document.getElementById('main').focus();
});
document.addEventListener('keydown', event => {
  if (event.target === document.body) gallery.step(event);
});
addEventListener('hashchange', () => recall(location.hash));
buildThemeSwitch();
if (source.pictures.length > 0) {
  const read = source.read(first);
  if (read) controls.wanted = firstWanted(read.picture.models[0].maps);
  if (!recall(location.hash)) go(first);
}
