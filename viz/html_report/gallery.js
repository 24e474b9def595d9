// Thumbnails of all pictures: the index of the page. Arrow keys go from one to the next.

class Gallery {
  /**
   * `pictures`: [{name, label (of its best class), thumbnail (a URL), failed}]; `onChoose(number)`
   * is called for the one that is chosen.
   */
  constructor(root, pictures, onChoose) {
    const kEnoughToFilter = 12;
    this.onChoose = onChoose;
    root.querySelector('.filter').hidden = pictures.length < kEnoughToFilter;
    this.filter = root.querySelector('#filter');
    this.matches = root.querySelector('#matches');
    const failuresOnly = root.querySelector('#failures-only');
    failuresOnly.hidden = !pictures.some(picture => picture.failed);
    this.box = failuresOnly.querySelector('input');
    this.entries = pictures.map((picture, number) => this.entryOf(picture, number));
    const list = root.querySelector('#entries');
    list.append(...this.entries.map(({item}) => item));
    list.addEventListener('keydown', event => this.step(event));
    for (const input of [this.filter, this.box]) {
      input.addEventListener('input', () => this.apply());
    }
    this.apply();
  }

  entryOf({name, label, thumbnail, failed}, number) {
    const item = document.createElement('li');
    const link = document.createElement('a');
    link.href = `#picture=${number + 1}`;
    link.className = failed ? 'failed' : '';
    link.addEventListener('click', event => {
      event.preventDefault();
      this.onChoose(number);
    });
    if (thumbnail) {
      const image = new Image();
      image.src = thumbnail;
      image.alt = '';
      link.append(image);
    }
    link.title = name;
    for (const text of [name.replace(/^.*\//, ''), label]) {
      const span = document.createElement('span');
      span.textContent = text;
      span.dir = 'auto';
      link.append(span);
    }
    item.append(link);
    return {item, link, number, failed, text: `${name} ${label}`.toLowerCase()};
  }

  apply() {
    const words = this.filter.value.toLowerCase().split(/\s+/);
    for (const {item, text, failed} of this.entries) {
      item.hidden = !words.every(word => text.includes(word)) || this.box.checked && !failed;
    }
    const shown = this.shown();
    this.matches.value = `${shown.length} of ${this.entries.length}`;
    this.makeReachable(shown.find(entry => entry === this.current) ?? shown[0]);
  }

  shown() {
    return this.entries.filter(({item}) => !item.hidden);
  }

  /** One of the links is reached by the tabulator. */
  makeReachable(wanted) {
    for (const entry of this.entries) entry.link.tabIndex = entry === wanted ? 0 : -1;
  }

  /** Marks the one that is shown. */
  mark(number) {
    this.current?.link.removeAttribute('aria-current');
    this.current = this.entries[number];
    const {link, item} = this.current;
    link.setAttribute('aria-current', 'true');
    if (!item.hidden) this.makeReachable(this.current);
    const list = item.parentElement;
    const above = item.offsetTop - list.offsetTop;
    if (above < list.scrollTop) list.scrollTop = above;
    const below = above + item.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  /** Where a key leads from the one that is shown; nothing for other keys and at the end. */
  next(key) {
    const shown = this.shown();
    const at = shown.indexOf(this.current);
    if (at < 0) return shown[0];
    const top = entry => entry.item.offsetTop;
    const across = shown.filter(entry => top(entry) === top(shown[0])).length;
    const steps = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across,
                   Home: -at, End: shown.length - 1 - at};
    return key in steps ? shown[at + steps[key]] : undefined;
  }

  step(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const entry = this.next(event.key);
    if (!entry) return;
    event.preventDefault();
    this.onChoose(entry.number);
    entry.link.focus();
  }
}
