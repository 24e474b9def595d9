// Where this page's pictures and maps come from: the page itself, one <article> each
// (html_report.cpp). Another page has another source of the same members.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), character => character.charCodeAt(0));
}

class EmbeddedSource {
  constructor() {
    const settings = JSON.parse(document.getElementById('settings').textContent);
    this.settings = {
      ...settings,
      colormaps: settings.colormaps.map(table => ({...table, colors: bytesOf(table.colors)})),
      firstLook: settings.look};
    this.articles = [...document.querySelectorAll('main > article')];
    /** For the index: {name, label, thumbnail, failed}; what is more belongs to this source. */
    this.pictures = this.articles.map(element => {
      const data = element.querySelector('.data');
      return {
        element,
        name: element.querySelector('h2').textContent,
        label: element.querySelector('.top .label')?.textContent ?? '',
        about: data && JSON.parse(data.textContent),
        failed: !data};
    });
    for (const picture of this.pictures) picture.thumbnail = picture.about?.thumbnail;
  }

  /** What PictureView shows; null where there is no map. */
  picture(number) {
    const {element, about, name} = this.pictures[number];
    if (!about?.models[0].maps.length) return null;
    const image = element.querySelector('.original img');
    const [width, height] = ['width', 'height'].map(key => Number(image.getAttribute(key)));
    const {models: names} = this.settings;
    const models = about.models.map((model, i) => ({...model, name: names[i] ?? ''}));
    return {...about, name, image: image.src, width, height, models};
  }

  /** What gives a picture's maps their float32 values, little endian as wherever browsers run. */
  valuesOf(number) {
    let lines;
    return map => {
      lines ??= this.pictures[number].element.querySelector('.maps').textContent.split('\n');
      return new Float32Array(bytesOf(lines[map.line]).buffer);
    };
  }
}
