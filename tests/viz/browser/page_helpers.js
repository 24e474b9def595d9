// What page_test.py says in the page. `part(i)` is the i-th picture.
globalThis.part = i => document.querySelectorAll('article.picture')[i];
globalThis.canvas = i => part(i).querySelector('canvas[role]');
globalThis.frames = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
globalThis.pick = async (root, aspect, text) => {
  const select = root.querySelector(`[data-aspect=${aspect}] select`);
  const option = [...select.options].find(each => each.text.startsWith(text));
  select.value = option.value;
  select.dispatchEvent(new Event('change'));
  return frames();
};
globalThis.adjust = async (root, name, value) => {
  const input = root.querySelector(`input[name=${name}]`);
  if (input.type === 'checkbox') input.checked = value; else input.value = value;
  input.dispatchEvent(new Event('input'));
  return frames();
};
globalThis.pixels = i => {
  const {width, height} = canvas(i);
  return canvas(i).getContext('2d').getImageData(0, 0, width, height).data;
};
globalThis.digest = i => pixels(i).reduce((sum, value, at) => (sum * 31 + value + at % 7) % 2147483647, 7);
globalThis.globalForm = document.querySelector('#global form');
globalThis.box = i => {
  const {left, top, width, height} = canvas(i).getBoundingClientRect();
  return {left, top, width, height};
};
globalThis.readout = i => part(i).querySelector('.readout').value;
globalThis.contrast = (one, other) => {
  const luminance = color => {
    const linear = color.match(/[\d.]+/g).slice(0, 3).map(value => value / 255)
                       .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
