// The page around the pictures: what is chosen for all of them, the index, the theme.

const settings = JSON.parse(document.getElementById('settings').textContent);
const articles = [...document.querySelectorAll('main > article')].map(element => {
  const data = element.querySelector('.data');
  const about = data && JSON.parse(data.textContent);
  return {element, about, name: element.querySelector('h2').textContent, view: null};
});
const withMaps = articles.filter(article => article.about?.maps.length > 0);

const page = {
  colormaps: settings.colormaps.map(table => ({...table, colors: bytesOf(table.colors)})),
  unseenBrightness: settings.unseenBrightness,
  outlierPercent: settings.outlierPercent,
  firstLook: {...settings.look},
  look: settings.look,
  wanted: withMaps.length > 0 ? firstWanted(withMaps[0].about.maps) : {},
};

/** Every map that some picture has; `class` counts positions in each picture's classes. */
function allMaps() {
  const maps = new Map();
  for (const {about} of withMaps) {
    for (const map of about.maps) maps.set(JSON.stringify(kAspects.map(name => map[name])), map);
  }
  return [...maps.values()];
}

/** The classes' names where all pictures have the same, else null. */
function sharedClasses() {
  const keys = new Set(withMaps.map(({about}) => JSON.stringify(about.classes.map(each => each.index))));
  if (keys.size !== 1) return null;
  return withMaps[0].about.classes.map(each => each.label || `class ${each.index}`);
}

function buildGlobalControls() {
  const form = document.querySelector('#global form');
  const maps = allMaps();
  const classes = sharedClasses();
  const mapChoices = new MapChoices(form, (aspect, value) => {
    page.wanted[aspect] = value;
    show();
    for (const {view} of withMaps) view?.want(aspect, value);
  });
  const lookChoices = new LookChoices(form, page.colormaps, (name, value) => {
    page.look[name] = value;
    show();
    for (const {view} of withMaps) view?.restyle(name, value);
  });
  const kinds = {signed: maps.some(map => map.signed), unsigned: maps.some(map => !map.signed)};
  function show() {
    mapChoices.show(choose(maps, page.wanted).aspects, classes);
    lookChoices.show(page.look, kinds);
  }
  show();
}

/** Pictures are drawn when they come near the screen, and let go when they are far from it. */
function drawWhatIsNear() {
  const byElement = new Map(withMaps.map(article => [article.element, article]));
  const observer = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const article = byElement.get(entry.target);
      if (entry.isIntersecting) {
        article.view ??= new PictureView(article.element, article.about, page);
        article.view.open();
      } else {
        article.view?.close();
      }
    }
  }, {rootMargin: '600px 0px'});
  for (const {element} of withMaps) observer.observe(element);
}

function buildIndex() {
  const list = document.getElementById('entries');
  const filter = document.getElementById('filter');
  const failuresOnly = document.getElementById('failures-only');
  const matches = document.getElementById('matches');
  for (const article of articles) {
    const link = document.createElement('a');
    link.href = `#${article.element.id}`;
    link.textContent = article.name;
    link.dir = 'auto';
    article.entry = document.createElement('li');
    article.entry.append(link);
    const best = article.element.querySelector('.top .label')?.textContent ?? '';
    if (!article.about) article.entry.className = 'failed';
    if (best) article.entry.append(` ${best}`);
    article.text = `${article.name} ${best}`.toLowerCase();
    list.append(article.entry);
  }
  failuresOnly.hidden = articles.every(article => article.about);
  const box = failuresOnly.querySelector('input');
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const {element, entry, text, about} of articles) {
      const matching = words.every(word => text.includes(word)) && !(box.checked && about);
      element.hidden = entry.hidden = !matching;
      count += Number(matching);
    }
    matches.value = `${count} of ${articles.length}`;
  };
  filter.addEventListener('input', apply);
  box.addEventListener('input', apply);
  apply();
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

/** What is jumped to must not hide behind the controls that stay at the top. */
function keepJumpsVisible() {
  const controls = document.getElementById('global');
  new ResizeObserver(() => {
    document.documentElement.style.setProperty('--controls-height', `${controls.offsetHeight}px`);
  }).observe(controls);
}

for (const element of document.querySelectorAll('.scripted')) element.classList.remove('scripted');
document.getElementById('index').hidden = articles.length < 2;
document.getElementById('global').hidden = withMaps.length === 0;
// A phone's screen is for the pictures.
if (matchMedia('(max-width: 720px)').matches) document.getElementById('global').open = false;
document.addEventListener('submit', event => event.preventDefault());
keepJumpsVisible();
buildThemeSwitch();
buildIndex();
if (withMaps.length > 0) {
  buildGlobalControls();
  drawWhatIsNear();
}
