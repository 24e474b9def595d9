// What `POST /v1/explain` answers of a picture and what pages hold of one, which is the same
// (docs/serve.md), as PictureView shows it.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), character => character.charCodeAt(0));
}

/** Of float32, little endian as wherever browsers run. */
function floatsOf(base64) {
  return new Float32Array(bytesOf(base64).buffer);
}

/** What the whole page has in common: page_data.cpp. */
function readSettings(page = document) {
  const settings = JSON.parse(page.getElementById('settings').textContent);
  const colormaps = settings.colormaps.map(table => ({...table, colors: bytesOf(table.colors)}));
  return {...settings, colormaps};
}

/** The records of an answer, the first model's and the second one's, that have maps. */
function recordsOf(answer) {
  return [answer, answer.against].filter(record => record?.maps?.length);
}

/** Where the evidence for classes is densest, the first class uppermost; x and y are shares of the picture's edges. */
function marksOf({top, width, height}) {
  return top.filter(({mark}) => mark).map(({mark: {x, y}, ...entry}) => (
    {x: x / width, y: y / height, entry, label: classText(entry, entry.prob)})).reverse();
}

/**
 * The views that a picture's answer is a mixture of, the weightiest first: {left, top, width, height, box, weight,
 * strength, entry, label}. Edges are shares of the picture's; `strength` is 1 for the weightiest.
 */
function viewsOf({views = [], width, height}) {
  const most = Math.max(...views.map(({weight}) => weight));
  return views.map(({box, weight, ...entry}) => ({
    left: box.left / width, top: box.top / height, width: box.width / width, height: box.height / height,
    box, weight, entry, strength: most > 0 ? weight / most : 0,
    label: classText(entry, entry.prob)})).sort((a, b) => b.weight - a.weight);
}

/** The position of a value in a list, where it is added if nothing there is the same. */
function positionIn(list, value, isSame) {
  const at = list.findIndex(isSame);
  return at < 0 ? list.push(value) - 1 : at;
}

/**
 * {name, image, width, height, classes, notes, marks, models: [{name, probabilities, maps, views, finder}]}. A map is
 * {method, class, layer, head, axes, read(), ...}: `class` a position in `classes`, null where the map
 * is the same for all of them; `read()` gives its values. `image` is {url, width, height}, `names` are
 * the models' where there are several.
 */
function pictureOf(answer, name, image, names) {
  const classes = [];
  const notes = [];
  const places = new Map();
  const axesOf = ({vertical, horizontal}) => {
    const key = JSON.stringify([vertical, horizontal]);
    if (!places.has(key)) places.set(key, {vertical: new Axis(vertical), horizontal: new Axis(horizontal)});
    return places.get(key);
  };
  const records = recordsOf(answer);
  const models = records.map((record, i) => ({
    name: names[i] ?? '',
    views: viewsOf(record),
    finder: record.finder,
    maps: record.maps.map(map => ({
      method: map.method,
      class: map.of_class ? positionIn(classes, map.class, each => each.index === map.class.index) : null,
      layer: map.layer,
      head: map.head ?? 'mean',
      signed: map.signed,
      quantity: map.quantity,
      ownShare: map.cls_share,
      memoryShare: map.memory_share,
      total: map.total,
      additive: map.additive,
      note: map.note ? positionIn(notes, map.note, each => each === map.note) : undefined,
      axes: axesOf(map),
      read: () => floatsOf(map.values)}))}));
  records.forEach((record, i) => {
    const known = [...record.top, ...record.maps.map(map => map.class)];
    models[i].probabilities = classes.map(({index}) => known.find(each => each.index === index)?.prob);
  });
  const {url, width, height} = image;
  return {name: visible(name), image: url, width, height, classes, notes, marks: marksOf(answer), models};
}
