// The source of this page's pictures and maps: the page itself, one <article> each
// (html_report.cpp).

class EmbeddedSource {
  constructor() {
    this.settings = readSettings();
    /** For the index: {name, label, thumbnail, failed}; what is more belongs to this source. */
    this.pictures = [...document.querySelectorAll('main > article')].map(article => {
      const data = article.querySelector('.data');
      return {
        element: article,
        name: article.querySelector('h2').textContent,
        label: article.querySelector('.top li')?.textContent ?? '',
        thumbnail: data?.dataset.thumbnail,
        data,
        failed: !data};
    });
  }

  /** {answer, picture}, read when they are asked for first; null of a failure. */
  read(number) {
    const entry = this.pictures[number];
    if (entry.failed) return null;
    if (!entry.read) {
      const answer = JSON.parse(entry.data.textContent);
      const image = entry.element.querySelector('.original img');
      const [width, height] = ['width', 'height'].map(key => Number(image.getAttribute(key)));
      const picture = pictureOf(answer, entry.name, {url: image.src, width, height}, this.settings.models);
      entry.read = {answer, picture};
    }
    return entry.read;
  }
}
