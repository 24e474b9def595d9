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
  return {name, image, width, height, classes, notes, models};
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
      settings, controls.onSplit, settings.patches ? pick : undefined);
  view.axes = axes;
  showBoxes();
}

/** Where classes were found, over the picture. */
function showBoxes() {
  const {width, height, top} = answer.record;
  for (const stage of article.querySelectorAll('.stage')) {
    for (const {box, label, index} of top.filter(each => each.box).reverse()) {
      const mark = document.createElement('div');
      mark.className = 'box';
      const name = document.createElement('span');
      name.textContent = label || `class ${index}`;
      mark.append(name);
      Object.assign(mark.style, {
        left: `${100 * box.left / width}%`, top: `${100 * box.top / height}%`,
        width: `${100 * box.width / width}%`, height: `${100 * box.height / height}%`});
      stage.append(mark);
    }
  }
}

function refresh() {
  if (!answer) return;
  const maps = answer.picture.models.flatMap(model => model.maps);
  const {axes} = choose(maps, controls.wanted).map;
  if (JSON.stringify(view?.axes) !== JSON.stringify(axes)) openView(axes);
  controls.show(view);
}

/** The row of a patch, of every layer, asked for layer by layer. */
function pick({row, column}, model) {
  if (model > 0) return;
  const [{maps}] = answer.picture.models;
  const [{axes}] = maps;
  const method = `attention of patch ${row},${column}`;
  if (!maps.some(map => map.method === method)) {
    const sent = file;
    const layers = distinct(maps.filter(map => !map.ask).map(map => map.layer));
    const rows = layers.map(layer => ({
      method, class: null, layer, head: 'mean', signed: false, ownShare: 0, axes,
      ask: () => ask({patch: `${row},${column}`, layer}, sent)
          .then(({patch}) => floatsOf(patch.values))
          .catch(error => {
            say('', error.message);
            return new Float32Array(axes.vertical.cells * axes.horizontal.cells).fill(NaN);
          })}));
    answer.picture.models[0].maps = [...maps.filter(map => !map.ask), ...rows];
    view.axes = null;
  }
  controls.wanted.method = method;
  refresh();
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

async function show(chosen) {
  const mine = ++number;
  const begin = performance.now();
  say(`${chosen.name} is being looked at`);
  try {
    const body = await chosen.arrayBuffer();  // a file that changes meanwhile is no other picture
    const query = {topk: 3, name: chosen.name};
    if (settings.models.length > 1) query.against = 1;
    const json = await ask(query, body);
    if (mine !== number) return;
    const records = [json, json.against].filter(record => record?.maps?.length);
    if (records.length === 0) throw new Error('the server has no map of this picture');
    if (answer) URL.revokeObjectURL(answer.picture.image);
    file = body;
    const url = URL.createObjectURL(new Blob([body], {type: chosen.type}));
    answer = {record: json, picture: pictureOf(records, chosen.name, url)};
    view?.close();
    view = null;
    if (!controls.view) controls.wanted = firstWanted(answer.picture.models[0].maps);
    controls.wanted.class = 0;
    article.hidden = controls.form.hidden = false;
    article.querySelector('h2 bdi').textContent = chosen.name;
    article.querySelector('.about').replaceChildren(...listOf(records));
    refresh();
    say(`${chosen.name}: ${Math.round(performance.now() - begin)} ms`, json.against?.error?.message);
  } catch (error) {
    if (mine === number) say('', `${chosen.name}: ${error.message}`);
  }
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
