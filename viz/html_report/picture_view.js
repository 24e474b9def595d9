// A picture with a pane for each model. A place that is pointed at in one pane is marked in all.

class PictureView {
  /**
   * `picture` as `pictureOf` makes it; `settings`: page_data.cpp.
   * `onSplit(share)` is told of a split that was moved, `onChoose(entry)` of a class whose mark
   * was clicked, `onPick(cell)` of a cell that was clicked, where it is given.
   */
  constructor(host, picture, settings, onSplit, onChoose, onPick) {
    this.picture = picture;
    const on = {
      point: place => this.panes.forEach(pane => pane.mark(place)),
      area: area => this.panes.forEach(pane => pane.markArea(area)),
      split: onSplit,
      choose: onChoose,
      pick: onPick,
    };
    this.panes = picture.models.map(model => new HeatPane(host, picture, model, settings, on));
  }

  close() {
    this.panes.forEach(pane => pane.close());
  }

  /** The maps of all models: what can be chosen. */
  maps() {
    return this.picture.models.flatMap(model => model.maps);
  }

  /** In each pane what comes nearest to `wanted` among its model's maps, which are returned. */
  show(wanted, look, split) {
    return this.panes.map(pane => {
      const {map} = choose(pane.model.maps, wanted);
      const {note, ownShare, memoryShare} = map;
      const notes = [note === undefined ? '' : this.picture.notes[note]];
      if (ownShare) notes.push(`${percent(ownShare)} of the heat is the class token's own, which has no place`);
      if (typeof memoryShare === 'number') notes.push(`${percent(memoryShare)} lies on earlier frames`);
      pane.show(map, look, this.describe(pane.model, map), notes.filter(Boolean).join('. '));
      pane.split(split);
      return map;
    });
  }

  /** The frames and the lists of views, where there are any. */
  showViews(isShown) {
    this.panes.forEach(pane => pane.views.show(isShown));
  }

  /** The class that the first pane's map is of; nothing where it is the same for all. */
  shownClass() {
    return this.picture.classes[this.panes[0].map.class];
  }

  describe(model, map) {
    const {classes} = this.picture;
    const name =
        map.class === null ? '' : classText(classes[map.class], model.probabilities[map.class]);
    return [model.name, name, map.method, `layer ${map.layer}`, `head ${map.head}`]
        .filter(Boolean).join(' \u00b7 ');
  }

  async savePicture() {
    const parts = await Promise.all(this.panes.map(pane => pane.toCanvas()));
    const [{width, height}] = parts;
    const whole = document.createElement('canvas');
    whole.width = width * parts.length;
    whole.height = height;
    parts.forEach((part, i) => whole.getContext('2d').drawImage(part, i * width, 0));
    whole.toBlob(blob => save(blob, `${this.nameOf(this.panes[0].map)}.png`), 'image/png');
  }

  /** A file for each model. */
  saveNumbers() {
    this.panes.forEach((pane, i) => {
      const model = i > 0 ? `.model${i + 1}` : '';
      save(pane.npy(), `${this.nameOf(pane.map)}${model}.npy`);
    });
  }

  nameOf(map) {
    const position = map.class === null ? '' : `.class${this.picture.classes[map.class].index}`;
    const name = fileName(this.picture.name);
    return `${name}.${map.method}.layer${map.layer}.head-${map.head}${position}`;
  }
}
