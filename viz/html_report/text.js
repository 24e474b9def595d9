// The words of the page, and the files that it lets people keep.

function percent(share) {
  return `${(100 * share).toFixed(1)}\u00a0%`;
}

/** Sensible digits for a person. */
function numberText(value) {
  if (Number.isNaN(value)) return 'not a number';
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(3);
}

/** A value as a share of a sum, of which a patch has little: "0.0123 %"; the value itself of no sum. */
function shareText(value, sum) {
  if (!(sum > 0) || !Number.isFinite(value)) return numberText(value);
  return `${Number((100 * value / sum).toPrecision(3))}\u00a0%`;
}

/** Characters that turn the direction of text are spelled out. */
function visible(text) {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
                      each => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function classText(entry, probability) {
  const label = visible(entry.label || `class ${entry.index}`);
  return typeof probability === 'number' ? `${label} (${percent(probability)})` : label;
}

/** "row 3, column 8", or with several "rows 3 to 5, columns 8 to 9". */
function spanText(rows, columns) {
  const text = (name, {first, last}) =>
      first === last ? `${name} ${first}` : `${name}s ${first} to ${last}`;
  return `${text('row', rows)}, ${text('column', columns)}`;
}

/** A file's name from a path: "a/b c.jpg" is "b_c.jpg". */
function fileName(path) {
  return path.replace(/^.*\//, '').replace(/[^\p{L}\p{N}._-]+/gu, '_');
}

function save(blob, name) {
  const link = document.createElement('a');
  link.download = name;
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The bytes of a .npy file (format 1.0) of float32 (rows, columns). */
function npyFile(values, rows, columns) {
  const kAlignment = 64;
  const kPrefix = 10;  // magic, version, length of the text
  let text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const length = Math.ceil((kPrefix + text.length + 1) / kAlignment) * kAlignment;
  text = text.padEnd(length - kPrefix - 1);
  text += '\n';
  const codes = characters => [...characters].map(character => character.charCodeAt(0));
  const head = Uint8Array.from(
      [0x93, ...codes('NUMPY'), 1, 0, text.length & 255, text.length >> 8, ...codes(text)]);
  return new Blob([head, values], {type: 'application/octet-stream'});
}

/** A choice against the system's theme changes when the style sheet's dark part holds. */
function buildThemeSwitch() {
  const rules = [...document.styleSheets[0].cssRules];
  const dark = rules.find(rule => rule.media?.mediaText.includes('prefers-color-scheme'));
  const media = {'': dark.media.mediaText, light: 'not all', dark: 'all'};
  const select = document.getElementById('theme');
  select.addEventListener('change', () => {
    dark.media.mediaText = media[select.value];
  });
}
