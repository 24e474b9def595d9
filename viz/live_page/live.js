// The page of a server: a picture is sent to it, and what comes back is shown in the same views as a
// report's. Values of maps are as the server wrote them, rows of patches are asked for when they are
// to be drawn.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), character => character.charCodeAt(0));
}

function floatsOf(base64) {
  return new Float32Array(bytesOf(base64).buffer);
}

const settings = (() => {
  const given = JSON.parse(document.getElementById('settings').textContent);
  const colormaps = given.colormaps.map(table => ({...table, colors: bytesOf(table.colors)}));
  return {...given, colormaps, firstLook: given.look};
})();
const article = document.querySelector('article');
const controls = new ViewControls(settings, refresh);
let file = null;     // what is shown, as it is sent
let answer = null;   // what came back of it: {picture, record}
let picked = null;   // a patch of it: {model, row, column}
let view = null;
let number = 0;      // of the picture: what comes late is of an earlier one

function say(status, message = '') {
  document.getElementById('status').value = status;
  document.getElementById('message').textContent = message;
}

/** The server's JSON; a busy server is asked again. Throws with its message. */
async function ask(query, body) {
  const kTries = 8;
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

/** The places of the classes, the first uppermost; after closer looks the things that these found. */
function boxesOf({width, height, top, things}) {
  return (things ?? top.filter(each => each.box)).map(({box, label, index}) => ({
    left: box.left / width, top: box.top / height, width: box.width / width, height: box.height / height,
    label: label || `class ${index}`})).reverse();
}

/** What PictureView shows of records. */
function pictureOf(records, name, image) {
  const classes = [];
  const notes = [];
  const position = (list, same, value) => {
    const at = list.findIndex(same);
    return at < 0 ? list.push(value) - 1 : at;
  };
  const models = records.map((record, i) => ({
    name: settings.models[i] ?? '',
    probabilities: [],
    maps: record.maps.map(map => ({
      method: map.method,
      class: map.of_class ?
          position(classes, each => each.index === map.class.index, map.class) : null,
      layer: map.layer,
      head: map.head ?? 'mean',
      signed: map.signed,
      ownShare: map.cls_share,
      total: map.total,
      additive: map.additive,
      note: map.note ? position(notes, each => each === map.note, map.note) : undefined,
      axes: {vertical: map.vertical, horizontal: map.horizontal},
      values: floatsOf(map.values)}))}));
  records.forEach((record, i) => {
    models[i].probabilities = classes.map(({index}) => {
      const found = [...record.top, ...record.maps.map(map => map.class)]
                        .find(each => each.index === index);
      return found?.prob;
    });
  });
  const {width, height} = records[0];
  return {name, image, width, height, classes, notes, boxes: boxesOf(records[0]), models};
}

/** Maps of a picture in several views lie where their class was found: those that lie together. */
function together(picture, axes) {
  const same = JSON.stringify(axes);
  return {
    ...picture,
    models: picture.models.map(model => {
      const maps = model.maps.filter(map => JSON.stringify(map.axes) === same);
      const shown = maps.length > 0 ? maps : model.maps.slice(0, 1);
      return {...model, ...shown[0].axes, maps: shown};
    })};
}

function openView(axes) {
  view?.close();
  view = new PictureView(
      article.querySelector('.views'), together(answer.picture, axes), map => map.values ??= map.ask(),
      settings, controls.onSplit, settings.patches.some(layers => layers.length > 0) ? pick : undefined);
  view.axes = axes;
}

function refresh() {
  if (!answer) return;
  const maps = answer.picture.models.flatMap(model => model.maps);
  const {axes} = choose(maps, controls.wanted).map;
  if (JSON.stringify(view?.axes) !== JSON.stringify(axes)) openView(axes);
  controls.show(view);
  showPicked();
}

function methodOf({row, column}) {
  return `attention of patch ${row},${column}`;
}

/** What the picked patch attends to, beside its model's maps; each layer is asked for when it is shown. */
function addRows() {
  const {model, row, column} = picked;
  for (const each of answer.picture.models) each.maps = each.maps.filter(map => !map.ask);
  const {maps} = answer.picture.models[model];
  const [{axes}] = maps;
  const sent = file;
  const query = {patch: `${row},${column}`};
  if (model > 0) query.against = 1;
  maps.push(...settings.patches[model].map(layer => ({
    method: methodOf(picked), class: null, layer, head: 'mean', signed: false, ownShare: 0, axes,
    ask: () => ask({...query, layer}, sent)
        .then(({patch}) => floatsOf(patch.values))
        .catch(error => {
          say('', error.message);
          return new Float32Array(axes.vertical.cells * axes.horizontal.cells).fill(NaN);
        })})));
}

function pick({row, column}, model) {
  if (settings.patches[model].length === 0) {
    say('', `${settings.models[model] || 'the model'} has no layer with an attention map`);
    return;
  }
  picked = {model, row, column};
  addRows();
  view.axes = null;
  controls.wanted.method = methodOf(picked);
  refresh();
}

function showPicked() {
  for (const mark of article.querySelectorAll('.mark.picked')) mark.remove();
  if (!picked || controls.wanted.method !== methodOf(picked)) return;
  const {figure, horizontal, vertical} = view.panes[picked.model];
  const mark = document.createElement('div');
  mark.className = 'mark picked';
  figure.querySelector('.stage').append(mark);
  const edges = (axis, cell) => [axis.edge(cell), axis.edge(cell + 1)];
  view.panes[picked.model].lay(mark, edges(horizontal, picked.column), edges(vertical, picked.row));
}

function listOf(records) {
  return records.flatMap((record, i) => {
    const parts = [];
    if (records.length > 1) {
      const heading = document.createElement('h3');
      heading.textContent = settings.models[i];
      parts.push(heading);
    }
    const list = document.createElement('ol');
    list.className = 'top';
    for (const each of record.top) {
      const item = document.createElement('li');
      const label = document.createElement('span');
      label.className = 'label';
      label.textContent = each.label || `class ${each.index}`;
      label.dir = 'auto';
      const value = document.createElement('span');
      value.className = 'value';
      value.textContent = percent(each.prob);
      item.append(label, ' ', value);
      list.append(item);
    }
    const facts = document.createElement('p');
    facts.className = 'note';
    const [height, width] = record.model_size;
    facts.textContent = `${record.height}x${record.width} → ${height}x${width} (HxW), ` +
        `${(1000 * record.seconds).toFixed(1)} ms of the model`;
    return [...parts, list, facts];
  });
}

/** A picture's URL, a grey one where the browser cannot show it. */
async function imageOf(body, type) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([body], {type}));
  try {
    await image.decode();
    return {url: image.src, isShown: true};
  } catch {
    URL.revokeObjectURL(image.src);
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d');
    context.fillStyle = '#888';
    context.fillRect(0, 0, 1, 1);
    return {url: canvas.toDataURL(), isShown: false};
  }
}

/** Shows what the server says of a picture: at first, or more of the one that is shown. */
function present(json, name, body, image) {
  const records = [json, json.against].filter(record => record?.maps?.length);
  if (records.length === 0) throw new Error('the server has no map of this picture');
  const isFirst = file !== body;
  if (isFirst) {
    if (answer) URL.revokeObjectURL(answer.picture.image);
    file = body;
    picked = null;
  }
  answer = {record: json, picture: pictureOf(records, name, image.url)};
  if (picked) addRows();
  view?.close();
  view = null;
  if (isFirst) {
    if (!controls.view) controls.wanted = firstWanted(answer.picture.models[0].maps);
    controls.wanted.class = 0;
  }
  article.hidden = controls.form.hidden = false;
  article.querySelector('h2 bdi').textContent = name;
  article.querySelector('.about').replaceChildren(...listOf(records));
  refresh();
}

/** One map is asked for first, as those of all layers and classes may take many times as long. */
async function show(chosen) {
  const {name, type} = chosen;
  const mine = ++number;
  const begin = performance.now();
  article.ariaBusy = 'true';
  say(`${name} is being looked at`);
  try {
    const body = await chosen.arrayBuffer();  // a file that changes meanwhile is no other picture
    const image = await imageOf(body, type);
    const query = {name};
    if (settings.models.length > 1) query.against = 1;
    const notes = json => [
      image.isShown ? '' : `this browser cannot show ${type || 'such a picture'}; the maps lie on grey`,
      json.against?.error?.message].filter(Boolean).join('. ');
    if (settings.first) {
      const json = await ask({...query, ...settings.first}, body);
      if (mine !== number) return;
      present(json, name, body, image);
      say(`${name}: other layers and classes are being computed`, notes(json));
    }
    const json = await ask({...query, topk: 3}, body);
    if (mine !== number) return;
    present(json, name, body, image);
    say(`${name}: ${Math.round(performance.now() - begin)} ms`, notes(json));
  } catch (error) {
    if (mine === number) say('', `${name}: ${error.message}`);
  }
  if (mine === number) article.ariaBusy = 'false';
}

function take(files) {
  const chosen = [...files].find(each => each.type.startsWith('image/')) ?? files[0];
  if (chosen) show(chosen);
}

for (const element of document.querySelectorAll('.scripted')) element.classList.remove('scripted');
document.getElementById('file').addEventListener('change', event => take(event.target.files));
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
buildThemeSwitch();
