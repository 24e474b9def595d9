// The page of a server: a picture is sent to it, and what comes back is shown in the same views as a
// report's. Maps of other classes and rows of patches are asked for when somebody wants to see them.

const settings = readSettings();
const article = document.querySelector('article');
const original = article.querySelector('.original img');
const form = document.getElementById('drop');
const controls = new ViewControls(settings, refresh);
let file = null;     // what is shown, as it is sent
let answer = null;   // what came back of it
let picture = null;  // the same as views show it
let picked = null;   // a patch of it: {model, row, column}
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

/** The server's JSON; a busy server is asked again. Throws with its message. */
async function ask(query, body) {
  const kTries = 8;
  if (settings.models.length > 1 && !('patch' in query)) query = {...query, against: 1};
  for (let left = kTries;; --left) {
    const response = await fetch(`v1/explain?${new URLSearchParams(query)}`, {
      method: 'POST', body,
      headers: {'Accept': 'application/json', 'Content-Type': 'application/octet-stream'}});
    if (response.status === 503 && left > 1) {
      const seconds = Number(response.headers.get('Retry-After')) || 1;
      await new Promise(done => setTimeout(done, 1000 * seconds));
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

/** Says how long the server is at work, and how long the last picture took; stops by what it returns. */
function watch(what) {
  const kMilliseconds = 200;
  clearInterval(watching);
  const bar = document.getElementById('progress');
  const begin = performance.now();
  const tick = () => {
    const seconds = (performance.now() - begin) / 1000;
    if (tookSeconds > 0) bar.value = Math.min(seconds / tookSeconds, 1);
    const last = tookSeconds > 0 ? `, the last picture took ${tookSeconds.toFixed(1)} s` : '';
    if (seconds >= 1) document.getElementById('status').value = `${what}: ${Math.floor(seconds)} s${last}`;
  };
  say(what);
  bar.removeAttribute('value');
  bar.hidden = false;
  tick();
  const timer = watching = setInterval(tick, kMilliseconds);
  return () => {
    clearInterval(timer);
    if (watching === timer) bar.hidden = true;
    return (performance.now() - begin) / 1000;
  };
}

// The shown parts of an answer.

function refresh() {
  if (!picture) return;
  controls.show(view);
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
      find('.views'), picture, settings, controls.onSplit,
      settings.patches.some(layers => layers.length > 0) ? pick : undefined);
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

/** A class that has no maps yet is asked for. */
async function explainClass({index, label}) {
  const position = () => picture.classes.findIndex(each => each.index === index);
  if (position() < 0) {
    const mine = number;
    const stop = watch(`maps of ${label || `class ${index}`}`);
    try {
      const more = await ask({name: file.name, class: `index:${index}`}, file.body);
      if (mine !== number) return;
      const withMore = (record, other) =>
          ({...record, maps: [...record.maps, ...other.maps.filter(map => map.of_class)]});
      answer = {...withMore(answer, more), against: answer.against?.maps && more.against?.maps ?
        withMore(answer.against, more.against) : answer.against};
      say('');
    } catch (error) {
      if (mine === number) say('', error.message);
      return;
    } finally {
      stop();
    }
    present();
  }
  if (position() < 0) return;  // all maps are the same for all classes
  unpick();
  controls.wanted.class = position();
  refresh();
}

/** The map that is shown, for a shell. */
function command() {
  const {map} = view.panes[picked?.model ?? 0];
  const words = map.patch ? {patch: map.patch, layer: map.layer} :
                            {method: map.method, layer: map.layer, head: map.head};
  if (map.class !== null) words.class = `index:${picture.classes[map.class].index}`;
  if (picked?.model > 0) words.against = 1;
  if (!map.patch) words.format = 'png';
  const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;
  const url = new URL(`v1/explain?${new URLSearchParams(words)}`, location.href);
  return `curl --data-binary @${quoted(file.name)} \\\n  ${quoted(decodeURIComponent(url))}` +
      (map.patch ? '' : ' \\\n  -o heatmap.png');
}

// Patches.

function methodOf({row, column}) {
  return `attention of patch ${row},${column}`;
}

/** What the picked patch attends to, beside its model's maps; each layer is asked for when it is shown. */
function addRows() {
  const {model, row, column, axes} = picked;
  const {body} = file;
  const query = {patch: `${row},${column}`};
  if (model > 0) query.against = 1;
  picture.models[model].maps.push(...settings.patches[model].map(layer => ({
    method: methodOf(picked), class: null, layer, head: 'mean', signed: false, quantity: 'weight',
    patch: query.patch, axes,
    read: () => ask({...query, layer}, body)
        .then(({patch}) => floatsOf(patch.values))
        .catch(error => {
          say('', error.message);
          return new Float32Array(axes.vertical.cells * axes.horizontal.cells).fill(NaN);
        })})));
}

function removeRows() {
  for (const model of picture.models) model.maps = model.maps.filter(map => !map.patch);
}

function pick({row, column}, model) {
  if (settings.patches[model].length === 0) {
    say('', `${settings.models[model] || 'the model'} has no layer with an attention map`);
    return;
  }
  const {vertical, horizontal} = view.panes[model];
  const from = picked?.from ?? {...controls.wanted};
  removeRows();
  picked = {model, row, column, from, axes: {vertical, horizontal}};
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
  const pane = view.panes[picked.model];
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

/** Asks for all that is shown of a picture: one map first, as those of all layers may take many times as long. */
async function explain(mine) {
  const {name, body, type, image} = file;
  const notes = () => [
    image.width > 0 ? '' : `this browser cannot show ${type || 'such a picture'}; the maps lie on grey`,
    answer.against?.error?.message].filter(Boolean).join('. ');
  const take = (json, isFirst) => {
    if (recordsOf(json).length === 0) throw new Error('the server has no map of this picture');
    const shown = view?.shownClass()?.index;
    answer = json;
    if (isFirst && !controls.view) {
      controls.wanted = firstWanted(pictureOf(json, name, image, settings.models).models[0].maps);
    }
    present();
    // The first class unless another one has been chosen meanwhile.
    controls.wanted.class = Math.max(picture.classes.findIndex(each => each.index === shown), 0);
    refresh();
  };
  let stop = watch(name);
  try {
    if (settings.first) {
      const json = await ask({name, ...settings.first}, body);
      if (mine !== number) return;
      take(json, true);
      stop();
      stop = watch(`${name}, other layers and classes`);
    }
    const json = await ask({name, topk: 3}, body);
    if (mine !== number) return;
    take(json, !settings.first);
    tookSeconds = stop();
    say(`${name}: ${Math.round(1000 * tookSeconds)} ms`, notes());
  } catch (error) {
    if (mine !== number) return;
    if (!answer) clear();
    say('', `${name}: ${error.message}`);
  } finally {
    stop();
    if (mine === number) article.ariaBusy = 'false';
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
  close();
  say(name);
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
    say('', `${name}: ${error.message}`);
    return;
  }
  original.src = file.image.url;
  original.alt = name;
  find('.original').hidden = file.image.width === 0;
  article.hidden = false;
  article.ariaBusy = 'true';
  form.classList.remove('empty');
  find('h2 bdi').textContent = name;
  explain(mine);
}

function take(files) {
  const chosen = [...files].find(each => each.type.startsWith('image/')) ?? files[0];
  if (chosen) show({name: chosen.name, type: chosen.type, read: () => chosen.arrayBuffer()});
}

function offerSamples() {
  document.getElementById('samples').append(...settings.samples.map(name => {
    const url = `samples/${encodeURIComponent(name)}`;
    const image = new Image();
    image.src = url;
    image.alt = name;
    const button = element('button', 'sample', image);
    button.type = 'button';
    button.addEventListener('click', () => show({
      name, type: 'image/jpeg', read: async () => {
        const response = await fetch(url);
        if (!response.ok) throw new Error(`the server answered ${response.status}`);
        return response.arrayBuffer();
      }}));
    return button;
  }));
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
offerSamples();
buildThemeSwitch();
