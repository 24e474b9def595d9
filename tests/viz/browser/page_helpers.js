// The words of page_test.py in the page: `part(i)` is the i-th picture, `pane(j)` the j-th model's map
// over the picture that is shown.
globalThis.part = i => document.querySelectorAll('article.picture')[i];
globalThis.pane = (j = 0) => document.querySelectorAll('.pane')[j];
globalThis.surface = (j = 0) => pane(j).querySelector('.surface');
globalThis.form = document.getElementById('controls');
globalThis.frames = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
globalThis.go = async i => {
  document.querySelectorAll('#entries a')[i].click();
  await frames();
  await document.querySelector('.pane img')?.decode();
  return frames();
};
globalThis.pick = async (name, text) => {
  const select = form.querySelector(`[data-aspect=${name}] select, [data-look=${name}] select`);
  select.value = [...select.options].find(each => each.text.startsWith(text)).value;
  select.dispatchEvent(new Event('change'));
  return frames();
};
globalThis.adjust = async (name, value) => {
  const input = form.querySelector(`input[name=${name}]`);
  if (input.type === 'checkbox') input.checked = value; else input.value = value;
  input.dispatchEvent(new Event('input'));
  return frames();
};
globalThis.setLayer = async at => {
  const slider = document.getElementById('layer');
  slider.value = at;
  slider.dispatchEvent(new Event('input'));
  return frames();
};
globalThis.layer = () => document.querySelector('.layers output').value;
globalThis.setSplit = async (share, j = 0) => {
  const slider = pane(j).querySelector('.split');
  slider.value = share;
  slider.dispatchEvent(new Event('input'));
  return frames();
};
/** The picture, or black, with the heat over it, at the picture's own size. */
globalThis.shown = (j = 0, isBlack = false) => {
  const image = pane(j).querySelector('img');
  const heat = pane(j).querySelector('.heat');
  const canvas = document.createElement('canvas');
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d');
  if (isBlack) context.fillRect(0, 0, canvas.width, canvas.height);
  else context.drawImage(image, 0, 0);
  context.drawImage(heat, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
};
globalThis.digest = (j = 0) =>
    shown(j).data.reduce((sum, value, at) => (sum * 31 + value + at % 7) % 2147483647, 7);
globalThis.box = (j = 0) => {
  const {left, top, width, height} = surface(j).getBoundingClientRect();
  return {left, top, width, height};
};
globalThis.readout = (j = 0) => pane(j).querySelector('.readout').value;
globalThis.sum = (j = 0) => pane(j).querySelector('.sum').value;
/** Frames a second while `change(i)` is called before each of them. */
globalThis.frameRate = (count, change) => new Promise(done => {
  const times = [];
  let number = 0;
  const next = time => {
    times.push(time);
    if (number === count) {
      done(1000 * count / (times[count] - times[0]));
      return;
    }
    change(number++);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
});
globalThis.contrast = (one, other) => {
  const luminance = color => {
    const linear = color.match(/[\d.]+/g).slice(0, 3).map(value => value / 255)
                       .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
