// The page of a server: a picture is sent to it, and what comes back is shown in the same views as a
// report's. Maps of other classes and rows of patches are asked for when they are chosen.

let settings = readSettings();
const article = document.querySelector('article');
const original = article.querySelector('.original img');
const form = document.getElementById('drop');
const controls = new ViewControls(settings, refresh);
let file = null;     // what is shown, as it is sent
let answer = null;   // what came back of it
let picture = null;  // the same as views show it
let picked = null;   // a patch of it: {row, column}
let view = null;
let classes = null;
let number = 0;      // of the picture: what comes late is of an earlier one
let tookSeconds = 0; // the last one's, all layers
let watching = 0;    // the timer of the work that is shown

const find = selector => article.querySelector(selector);

function say(status, message = '') {
  document.getElementById('status').value = status;
  document.getElementById('message').textContent = message;
}

function durationText(seconds) {
  return seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`;
}

/**
 * The server's JSON; a busy server is asked again. Throws with its message. `query`: words, of which one may be a list;
 * `signal` gives it up.
 */
async function ask(query, body, signal) {
  const kTries = 8;
  const words = {...query, ...settings.query};
  const pairs = Object.entries(words).flatMap(([key, value]) => [value].flat().map(one => [key, one]));
  for (let left = kTries;; --left) {
    const response = await fetch(`v1/explain?${new URLSearchParams(pairs)}`, {
      method: 'POST', body, signal,
      headers: {'Accept': 'application/json', 'Content-Type': 'application/octet-stream'}});
    if (response.status === 503 && left > 1) {
      const seconds = Number(response.headers.get('Retry-After')) || 1;
      await new Promise(done => setTimeout(done, 1000 * seconds));
      signal?.throwIfAborted();
      continue;
    }
    const text = await response.text();
    let json = null;
    try {
      json = JSON.parse(text);
    } catch {
      throw new Error(`the server answered ${response.status}`);
    }
    if (json.error) throw new Error(json.error.message);
    return json;
  }
}

/**
 * Says how long a question has been at work, and how long the last picture took; stops by what it returns.
 */
function watch(what) {
  const kMilliseconds = 200;
  clearInterval(watching);
  const bar = document.getElementById('progress');
  const begin = performance.now();
  const tick = () => {
    const seconds = (performance.now() - begin) / 1000;
    if (seconds < 1) return;
    const last = tookSeconds > 0 ? `, the last picture took ${durationText(tookSeconds)}` : '';
    document.getElementById('status').value = `${what}: ${Math.floor(seconds)} s${last}`;
  };
  say(what);
  bar.hidden = false;
  tick();
  const timer = watching = setInterval(tick, kMilliseconds);
  return () => {
    clearInterval(timer);
    if (watching === timer) bar.hidden = true;
    return (performance.now() - begin) / 1000;
  };
}

// A map that was chosen comes before those that come by themselves, which are given up meanwhile.

let inFront = 0;        // questions about what was chosen
let atBack = null;      // what comes by itself: gives it up
let isWhole = false;    // it has come
const more = {classes: new Set(), methods: new Set()};  // that were asked for beside the usual ones

/** Throws what the question throws. */
async function askInFront(what, query) {
  ++inFront;
  article.ariaBusy = 'true';
  atBack?.abort();
  const stop = watch(what);
  try {
    return await ask(query, file.body);
  } finally {
    stop();
    --inFront;
  }
}

/** All layers of the best classes and of those that were asked for. */
async function askRest() {
  if (!answer || isWhole || inFront > 0 || atBack) return;
  const mine = number;
  const {name, body} = file;
  const what = `${name}, other layers and classes`;
  const query = {name, topk: 3};
  if (more.classes.size > 0) query.class = [...more.classes].map(index => `index:${index}`);
  if (more.methods.size > 0) Object.assign(query, {method: [...settings.usual, ...more.methods].join(','), layer: 'all'});
  const {signal} = atBack = new AbortController();
  const stop = watch(what);
  try {
    const json = await ask(query, body, signal);
    if (mine !== number) return;
    isWhole = true;
    takeAnswer(json);
    const seconds = stop();
    say(`${name}: ${durationText(seconds)}`, notes());
    tookSeconds = seconds;
    article.ariaBusy = 'false';
  } catch (error) {
    if (mine === number && !signal.aborted) {
      say('', `${what}: ${error.message}`);
      article.ariaBusy = 'false';
    }
  } finally {
    stop();
    if (atBack?.signal === signal) atBack = null;
  }
}

/** Goes on with the rest once no chosen map is awaited. */
function goOn() {
  if (inFront > 0) return;
  atBack = null;
  if (isWhole) article.ariaBusy = 'false';
  askRest();
}

function notes() {
  const {image, type} = file;
  return image.width > 0 ? '' : `this browser cannot show ${type || 'such a picture'}; the maps lie on grey`;
}

// The shown parts of an answer.

function refresh() {
  if (!picture) return;
  controls.methods = settings.methods;
  controls.show(view);
  const {method} = controls.wanted;
  if (settings.methods.includes(method) && view.maps().every(map => map.method !== method)) askMethod(method);
  classes.mark(view.shownClass()?.index);
  showPicked();
  find('.command pre').textContent = command();
}

/** In the same place the views of what `answer` holds now. */
function present() {
  const {url, width, height} = file.image;
  // A picture that the browser cannot show has its size from the record.
  const size = width > 0 ? {width, height} : answer;
  picture = pictureOf(answer, file.name, {url, width: size.width, height: size.height}, settings.models);
  view?.close();
  view = new PictureView(
      find('.views'), picture, settings, controls.onSplit, explainClass,
      settings.patches.length > 0 ? pick : undefined);
  article.classList.add('open');
  controls.form.hidden = find('.command').hidden = false;
  classes = new ClassList(find('.classes'), answer, settings.models, () => true, explainClass);
  if (picked) addRows();
  refresh();
}

function close() {
  view?.close();
  view = answer = picture = picked = null;
  article.classList.remove('open');
  controls.form.hidden = find('.command').hidden = true;
  find('.classes').replaceChildren();
}

/** `record` with the maps of `other` that it lacks. */
function withMaps(record, other) {
  const keyOf = map => [map.method, map.of_class ? map.class.index : '', map.layer, map.head ?? 'mean'].join();
  const known = new Set(record.maps.map(keyOf));
  return {...record, maps: [...record.maps, ...other.maps.filter(map => !known.has(keyOf(map)))]};
}

/** Takes what was asked for beside what is there; nothing of an earlier picture. */
function add(json) {
  answer = withMaps(answer, json);
  present();
}

/** The map that is shown, of another class or method: a choice asks for one map. */
function shownQuery() {
  const {method, layer, head} = view.panes[0].map.patch ? firstWanted(picture.models[0].maps) : view.panes[0].map;
  return {name: file.name, method, layer, head};
}

const indexed = index => `index:${index}`;

/** A class that has no maps yet is asked for. */
async function explainClass({index, label}) {
  const position = () => picture.classes.findIndex(each => each.index === index);
  unpick();
  if (position() < 0) {
    const mine = number;
    try {
      const kMost = 16;  // as many as the server makes maps of at a time, and the best ones
      if (more.classes.size === kMost) more.classes.delete([...more.classes][0]);
      more.classes.add(index);
      isWhole = false;
      const json = await askInFront(`map of ${label || `class ${index}`}`, {...shownQuery(), class: indexed(index)});
      if (mine !== number) return;
      add(json);
      say('');
    } catch (error) {
      more.classes.delete(index);
      if (mine !== number) return;
      refresh();
      say('', error.message);
      return;
    } finally {
      if (mine === number) goOn();
    }
  }
  if (position() < 0) return;  // all maps are the same for all classes
  controls.wanted.class = position();
  refresh();
}

/** Maps by another method are asked for. */
async function askMethod(method) {
  if (more.methods.has(method)) return;  // on their way
  const mine = number;
  const before = view.panes[0].map.method;
  const {layer, ...query} = shownQuery();
  const shown = view.shownClass();
  more.methods.add(method);
  isWhole = false;
  try {
    const json = await askInFront(`map by ${method}`, {
      ...query, method, layer, head: 'mean', ...shown ? {class: indexed(shown.index)} : {topk: 1}});
    if (mine !== number) return;
    add(json);
    say('');
    refresh();
  } catch (error) {
    if (mine !== number) return;
    more.methods.delete(method);
    controls.wanted.method = before;
    refresh();
    say('', error.message);
  } finally {
    if (mine === number) goOn();
  }
}

/** The map that is shown, for a shell. */
function command() {
  const {map} = view.panes[0];
  const words = map.patch ? {patch: map.patch, layer: map.layer} :
                            {method: map.method, layer: map.layer, head: map.head};
  if (map.class !== null) words.class = `index:${picture.classes[map.class].index}`;
  if (!map.patch) words.format = 'png';
  Object.assign(words, settings.query);
  const quoted = text => visible(text) === text
      ? `'${text.replaceAll("'", "'\\''")}'`
      : `$'${visible(text.replace(/[\\']/g, each => `\\${each}`))}'`;
  const url = new URL(`v1/explain?${new URLSearchParams(words)}`, location.href);
  return `curl --data-binary @${quoted(file.name)} \\\n  ${quoted(decodeURIComponent(url))}` +
      (map.patch ? '' : ' \\\n  -o heatmap.png');
}

// Patches.

function methodOf({row, column}) {
  return `attention of patch ${row},${column}`;
}

/** What the picked patch attends to, beside the maps; each layer is asked for when it is shown. */
function addRows() {
  const {row, column, axes} = picked;
  const query = {patch: `${row},${column}`};
  const rows = picked.rows ??= new Map();  // by layer: asked for once
  const askRow = async layer => {
    try {
      const {patch} = await askInFront(methodOf({row, column}), {...query, layer});
      say('');
      return floatsOf(patch.values);
    } catch (error) {
      say('', error.message);
      return new Float32Array(axes.vertical.cells * axes.horizontal.cells).fill(NaN);
    } finally {
      goOn();
    }
  };
  picture.models[0].maps.push(...settings.patches.map(layer => ({
    method: methodOf(picked), class: null, layer, head: 'mean', signed: false, quantity: 'weight',
    patch: query.patch, axes,
    read: () => {
      if (!rows.has(layer)) rows.set(layer, askRow(layer));
      return rows.get(layer);
    }})));
}

function removeRows() {
  const [model] = picture.models;
  model.maps = model.maps.filter(map => !map.patch);
}

function pick({row, column}) {
  const {vertical, horizontal} = view.panes[0];
  const from = picked?.from ?? {...controls.wanted};
  removeRows();
  picked = {row, column, from, axes: {vertical, horizontal}};
  addRows();
  controls.wanted.method = methodOf(picked);
  refresh();
}

/** Back to what was shown before a patch was picked. */
function unpick() {
  if (!picked) return;
  removeRows();
  controls.wanted = {...picked.from, layer: controls.wanted.layer};
  picked = null;
}

function showPicked() {
  for (const mark of article.querySelectorAll('.mark.picked')) mark.remove();
  if (!picked || controls.wanted.method !== methodOf(picked)) return;
  const [pane] = view.panes;
  const mark = element('div', 'mark picked');
  pane.figure.querySelector('.stage').append(mark);
  const edges = (axis, cell) => [axis.edge(cell), axis.edge(cell + 1)];
  pane.lay(mark, edges(pane.horizontal, picked.column), edges(pane.vertical, picked.row));
}

// Pictures that come.

/** {url, width, height}: a grey one of size 0 where the browser cannot show it. */
async function imageOf(body, type) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([body], {type}));
  try {
    await image.decode();
    return {url: image.src, width: image.naturalWidth, height: image.naturalHeight};
  } catch {
    URL.revokeObjectURL(image.src);
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d');
    context.fillStyle = '#888';
    context.fillRect(0, 0, 1, 1);
    return {url: canvas.toDataURL(), width: 0, height: 0};
  }
}

/** Takes an answer in the place of what is shown. */
function takeAnswer(json) {
  if (recordsOf(json).length === 0) throw new Error('the server has no map of this picture');
  const isFirst = answer === null;
  const shown = view?.shownClass()?.index;
  answer = json;
  if (isFirst && !controls.view) {
    controls.wanted = firstWanted(pictureOf(json, file.name, file.image, settings.models).models[0].maps);
  }
  present();
  // The first class unless another one has been chosen meanwhile.
  controls.wanted.class = Math.max(picture.classes.findIndex(each => each.index === shown), 0);
  refresh();
}

/** Asks for all that is shown of a picture: one map first, as those of all layers may take many times as long. */
async function explain(mine) {
  const {name} = file;
  isWhole = false;
  try {
    const json = await askInFront(name, {name, ...settings.first ?? {topk: 1}});
    if (mine !== number) return;
    takeAnswer(json);
    goOn();
  } catch (error) {
    if (mine !== number) return;
    clear();
    say('', `${name}: ${error.message}`);
    article.ariaBusy = 'false';
  }
}

function clear() {
  close();
  article.hidden = true;
  form.classList.add('empty');
}

/** Shows a picture, and what the server says of it as it comes. */
async function show({name, type, read}) {
  const mine = ++number;
  atBack?.abort();
  atBack = null;
  more.classes.clear();
  more.methods.clear();
  close();
  say(visible(name));
  try {
    const body = await read();  // a file that changes meanwhile is no other picture
    const image = await imageOf(body, type);
    if (mine !== number) {
      URL.revokeObjectURL(image.url);
      return;
    }
    if (file) URL.revokeObjectURL(file.image.url);
    file = {name, type, body, image};
  } catch (error) {
    if (mine !== number) return;
    clear();
    say('', `${visible(name)}: ${error.message}`);
    return;
  }
  original.src = file.image.url;
  original.alt = visible(name);
  find('.original').hidden = file.image.width === 0;
  article.hidden = false;
  article.ariaBusy = 'true';
  form.classList.remove('empty');
  find('h2 bdi').textContent = visible(name);
  explain(mine);
}

function take(files) {
  const chosen = [...files].find(each => each.type.startsWith('image/')) ?? files[0];
  if (chosen) show({name: chosen.name, type: chosen.type, read: () => chosen.arrayBuffer()});
}

/** Another model or other views: another page of the server, whose settings this one takes over. */
async function openOther(name, value) {
  const words = new URLSearchParams({...settings.query, [name]: value});
  const mine = ++number;
  atBack?.abort();
  atBack = null;
  say(`opening ${value}`);
  try {
    const response = await fetch(`?${words}`);
    const text = await response.text();
    if (mine !== number) return;
    if (!response.ok) throw new Error(JSON.parse(text).error.message);
    const page = new DOMParser().parseFromString(text, 'text/html');
    settings = readSettings(page);
    for (const part of ['h1', '.run']) document.querySelector(part).replaceWith(page.querySelector(part));
    document.title = page.title;
    history.replaceState(null, '', `?${words}`);
  } catch (error) {
    showMenus();
    if (mine !== number) return;
    say('', `${value}: ${error.message}`);
    goOn();
    return;
  }
  say('');
  controls.view = null;
  showMenus();
  if (file) {
    const {name, type, body} = file;
    show({name, type, read: async () => body});
  }
}

/** Choices of what the server can open. */
function offerMenus() {
  for (const {name, title, values} of settings.menus) {
    const select = document.createElement('select');
    select.append(...values.map(value => new Option(value)));
    select.addEventListener('change', () => openOther(name, select.value));
    const field = element('label', 'field menu', element('span', '', title), select);
    field.dataset.menu = name;
    document.querySelector('.headline').insertBefore(field, document.getElementById('theme').parentElement);
  }
  showMenus();
}

function showMenus() {
  for (const {name, value} of settings.menus) document.querySelector(`[data-menu=${name}] select`).value = value;
}

for (const each of document.querySelectorAll('.scripted')) each.classList.remove('scripted');
document.getElementById('file').addEventListener('change', event => {
  take(event.target.files);
  event.target.value = '';  // so that the same file can be chosen again
});
document.addEventListener('paste', event => take(event.clipboardData.files));
document.addEventListener('dragover', event => {
  event.preventDefault();
  document.body.classList.add('dragging');
});
for (const end of ['dragleave', 'drop']) {
  document.addEventListener(end, () => document.body.classList.remove('dragging'));
}
document.addEventListener('drop', event => {
  event.preventDefault();
  take(event.dataTransfer.files);
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape' || !picked) return;
  unpick();
  refresh();
});
find('.command button').addEventListener('click', event => {
  navigator.clipboard?.writeText(find('.command pre').textContent)
      .then(() => { event.target.textContent = 'Copied'; }, () => {});
  getSelection().selectAllChildren(find('.command pre'));
});
offerMenus();
buildThemeSwitch();
