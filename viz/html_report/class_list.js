// The models' answers to a picture: the best classes with bars, and the rest of the record.

function element(kind, className, ...content) {
  const made = document.createElement(kind);
  made.className = className;
  made.append(...content);
  return made;
}

function barOf(share) {
  const filled = element('span', '');
  filled.style.width = `${100 * share}%`;
  return element('span', 'bar', filled);
}

/** A class with its probability, a bar as long as `share`, and words below, if there are any. */
function rowOf(entry, share, words) {
  const label = element('span', 'label', classText(entry));
  label.dir = 'auto';
  const parts = [label, element('span', 'value', percent(entry.prob)), barOf(share)];
  return words ? [...parts, element('span', 'beside', words)] : parts;
}

class ClassList {
  /**
   * In place of what `host` holds. `canChoose(entry)`: whether a class has maps, or may have;
   * `onChoose(entry)` is called for a class that is clicked.
   */
  constructor(host, answer, names, canChoose, onChoose) {
    this.buttons = [];
    const records = recordsOf(answer);
    host.replaceChildren(...records.flatMap((record, i) => [
      ...records.length > 1 ? [element('h3', '', names[i])] : [],
      element('ol', 'top', ...record.top.map(entry => this.itemOf(entry, canChoose, onChoose))),
      ...this.remarksOf(record)]));
  }

  itemOf(entry, canChoose, onChoose) {
    const parts = rowOf(entry, entry.prob);
    if (!canChoose(entry)) return element('li', 'row', ...parts);
    const button = element('button', 'row', ...parts);
    button.type = 'button';
    button.addEventListener('click', () => onChoose(entry));
    this.buttons.push([entry.index, button]);
    return element('li', '', button);
  }

  remarksOf({width, height, model_size: [rows, columns], note, notes}) {
    return [`${height}x${width} \u2192 ${rows}x${columns} (HxW)`, note, ...notes ?? []]
        .filter(Boolean).map(text => element('p', 'note', text));
  }

  /** Marks the class that is explained; none for null. */
  mark(index) {
    for (const [each, button] of this.buttons) button.setAttribute('aria-pressed', String(each === index));
  }
}
