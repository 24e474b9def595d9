"""The page of `hydrascope serve` in a headless Chromium: live_page_test.py PROGRAM [--axe axe.min.js]

Exits with 77 where there is no Chromium.
"""

import argparse
import base64
import json
import pathlib
import sys
import unittest

from serving import MODEL, PICTURES, Server, records

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "viz/browser"))
import chromium  # noqa: E402  pylint: disable=wrong-import-position

SKIPPED = 77
ARGUMENTS = None
PHOTO = PICTURES / "good/baseline.jpg"
OTTERS = PICTURES.parents[2] / "assets/images/oakland-zoo-otters.jpg"
DRAWN = "document.querySelector('.pane.drawn') !== null && document.querySelector('article').ariaBusy === 'false'"
GIVE = """(() => {
  const bytes = Uint8Array.from(atob(%s), character => character.charCodeAt(0));
  const given = new DataTransfer();
  given.items.add(new File([bytes], %s, {type: %s}));
  document.dispatchEvent(new DragEvent('drop', {dataTransfer: given, cancelable: true, bubbles: true}));
})()"""


class LivePage(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(ARGUMENTS.program, "--precision", "float32", *cls.options, model=MODEL)
        cls.addClassCleanup(cls.server.stop)
        cls.browser = chromium.Chromium(chromium.find())
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.problems.clear()
        self.browser.resize(1280, 900)
        self.browser.open(self.server.url)

    def keep_screenshot(self, name):
        if ARGUMENTS.screenshots:
            file = pathlib.Path(ARGUMENTS.screenshots) / f"live-{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(self.browser.screenshot()))

    def tearDown(self):
        # A request to the page's own server is no problem.
        found = [text for text in self.browser.problems if not text.startswith(f"a request for {self.server.url}")]
        self.assertEqual(found, [])

    def js(self, expression):
        return self.browser.evaluate(expression)

    def give(self, file, kind="image/jpeg"):
        content = base64.b64encode(file.read_bytes()).decode()
        self.js(GIVE % (json.dumps(content), json.dumps(file.name), json.dumps(kind)))

    def drop(self):
        self.give(PHOTO)
        self.browser.wait_for(DRAWN)

    def click_the_middle(self):
        self.js("document.querySelector('.surface').scrollIntoView({block: 'center'})")
        self.browser.click(*self.js("(() => { const {left, top, width, height} = document.querySelector('.surface').getBoundingClientRect();"
                                    "return [left + width / 2, top + height / 2]; })()"))

    def message(self):
        return self.js("document.getElementById('message').textContent")

    def asked(self):
        return [text.partition("v1/")[2] for text in self.browser.problems if "v1/" in text]

    def top(self):
        return self.js("[...document.querySelectorAll('.about .top')[0].querySelectorAll('.label')].map(each => each.textContent)")


class OneModel(LivePage):
    def test_a_picture_that_is_dropped_has_classes_and_a_map(self):
        self.drop()
        expected = [each["label"] or f"class {each['index']}" for each in records(ARGUMENTS.program, PHOTO, words=("-m", MODEL, "--precision", "float32"))[0]["top"]]
        self.assertEqual(self.top(), expected)
        self.assertEqual(self.js("document.querySelectorAll('.pane').length"), 1)
        self.assertEqual(self.js("document.getElementById('message').textContent"), "")
        colours = self.js("(() => { const canvas = document.querySelector('.heat'); const {width, height} = canvas;"
                          "return new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer)).size; })()")
        self.assertGreater(colours, 20)

    def test_layers_are_scrubbed_without_a_request(self):
        self.drop()
        self.browser.problems.clear()
        before = self.js("document.querySelector('.caption').textContent")
        self.js("(() => { const layer = document.getElementById('layer'); layer.value = 0; layer.dispatchEvent(new Event('input')); })()")
        self.assertNotEqual(self.js("document.querySelector('.caption').textContent"), before)
        self.assertEqual(self.browser.problems, [])

    def test_one_map_comes_before_all_others(self):
        self.js("window.said = []; new MutationObserver(() => said.push(document.getElementById('status').value))"
                ".observe(document.getElementById('status'), {childList: true, characterData: true, subtree: true})")
        self.drop()
        asked = self.asked()
        self.assertEqual(len(asked), 2)
        self.assertIn("layer=11", asked[0])
        self.assertIn("topk=1", asked[0])
        self.assertNotIn("layer=", asked[1])
        self.assertIn(f"{PHOTO.name}, other layers and classes", self.js("said"))
        self.assertEqual(self.js("document.querySelector('article').ariaBusy"), "false")
        self.assertEqual(self.js("document.getElementById('layer').max"), "11")
        self.assertEqual(self.js("document.querySelector('[data-aspect=class] select').options.length"), 3)

    def test_long_work_says_its_seconds(self):
        self.js("(() => { const {fetch} = window; window.fetch = (...all) => new Promise(done => setTimeout(() => done(fetch(...all)), 2500)); })()")
        self.give(PHOTO)
        self.browser.wait_for(f"document.getElementById('status').value === '{PHOTO.name}: 1 s'")
        self.assertTrue(self.js("document.getElementById('progress').checkVisibility()"))
        self.browser.wait_for(DRAWN)
        self.assertFalse(self.js("document.getElementById('progress').checkVisibility()"))

    def test_what_somebody_waits_for_comes_first(self):
        # The rest would take for ever.
        self.js("(() => { const {fetch} = window; window.given_up = 0; window.holds = true; window.fetch = (target, options, ...more) => {"
                "if (!holds || !target.startsWith('v1/explain') || target.includes('layer=')) return fetch(target, options, ...more);"
                "return new Promise((_, fail) => options.signal.addEventListener('abort', () => { ++given_up; fail(options.signal.reason); })); }; })()")
        self.give(PHOTO)
        self.browser.wait_for("document.querySelector('.pane.drawn') !== null")
        buttons = "document.querySelectorAll('.about .top button')"
        self.browser.wait_for(f"{buttons}.length === 5")
        self.browser.wait_for("document.getElementById('status').value.includes('other layers and classes')")
        self.browser.problems.clear()
        fourth = self.top()[3]
        self.js(f"{buttons}[3].click()")
        self.browser.wait_for(f"{buttons}[3].ariaPressed === 'true'")
        self.assertIn(fourth, self.js("document.querySelector('.caption').textContent"))
        self.assertEqual(self.js("given_up"), 1)
        self.assertIn("class=index%3A", self.asked()[0])
        self.assertIn("layer=11", self.asked()[0], "one map is waited for")
        self.js("holds = false")
        self.js(f"{buttons}[4].click()")
        self.browser.wait_for(DRAWN)
        self.assertEqual(self.js("document.getElementById('layer').max"), "11")
        self.assertEqual(self.js("document.querySelector('[data-aspect=class] select').options.length"), 5)
        self.assertEqual(self.js(f"{buttons}[4].ariaPressed"), "true", "the rest changes no choice")

    def test_the_picture_is_on_the_first_screen(self):
        self.browser.resize(1280, 800)
        self.give(OTTERS)
        self.browser.wait_for(DRAWN)
        top, bottom = self.js("(({top, bottom}) => [top, bottom])(document.querySelector('.stage').getBoundingClientRect())")
        self.assertLess(top, 250)
        self.assertLess(bottom, 800)
        self.assertLess(self.js("document.getElementById('layer').getBoundingClientRect().bottom"), 800)
        self.keep_screenshot("first-screen")

    def choose(self, menu, value):
        self.js(f"(() => {{ const select = document.querySelector('[data-menu={menu}] select'); select.value = {json.dumps(value)};"
                "select.dispatchEvent(new Event('change')); })()")

    def test_model_and_views_are_chosen_on_the_page(self):
        self.drop()
        self.assertEqual(self.js("[...document.querySelectorAll('.menu select')].map(each => each.value)"), ["deit_tiny_patch16_224.softmax", "whole"])
        models = self.js("[...document.querySelector('[data-menu=model] select').options].map(each => each.value)")
        self.assertEqual(len(models), 5)
        self.browser.problems.clear()
        self.choose("model", "deit_tiny_patch16_224.hydra_last2")
        self.browser.wait_for("document.querySelector('h1').textContent.includes('hydra_last2')")
        self.browser.wait_for(DRAWN)
        self.assertIn("model=deit_tiny_patch16_224.hydra_last2", self.asked()[-1])
        expected = [each["label"] or f"class {each['index']}" for each in records(
            ARGUMENTS.program, PHOTO, words=("-m", "deit_tiny_patch16_224.hydra_last2", "--precision", "float32"))[0]["top"]]
        self.assertEqual(self.top(), expected)
        self.assertIn("model=deit_tiny_patch16_224.hydra_last2", self.js("document.querySelector('.command pre').textContent"))
        # The address opens the same page.
        self.browser.open(self.server.url + "?model=deit_tiny_patch16_224.window&views=native")
        self.assertIn("window", self.js("document.querySelector('h1').textContent"))
        self.assertEqual(self.js("document.querySelector('[data-menu=views] select').value"), "native")

    def test_another_method_is_asked_for(self):
        self.drop()
        method = "document.querySelector('[data-aspect=method] select')"
        names = self.js(f"[...{method}.options].map(each => each.text)")
        self.assertEqual(names[0], "hydra")
        self.assertIn("gradcam", names)
        self.browser.problems.clear()
        self.js(f"(() => {{ {method}.value = {names.index('gradcam')}; {method}.dispatchEvent(new Event('change')); }})()")
        self.browser.wait_for("document.querySelector('.caption').textContent.includes('gradcam')")
        self.assertIn("method=gradcam", self.asked()[0])
        self.browser.wait_for(DRAWN)
        self.assertEqual(self.js("document.getElementById('layer').max"), "11")
        self.assertIn("gradcam", self.js("document.querySelector('.caption').textContent"))

    def test_a_picture_that_the_browser_cannot_show(self):
        tiff = PICTURES / "good/lzw.tif"
        self.give(tiff, "image/tiff")
        self.browser.wait_for(DRAWN)
        self.assertIn("cannot show image/tiff", self.message())
        self.assertEqual(len(self.top()), 5)
        self.js("(() => { const {toBlob} = HTMLCanvasElement.prototype; HTMLCanvasElement.prototype.toBlob = function(done, ...more) {"
                "toBlob.call(this, blob => { window.saved = blob.size; }, ...more); }; })()")
        self.js("document.getElementById('save-picture').click()")
        self.browser.wait_for("window.saved > 0")
        self.drop()
        self.assertEqual(self.message(), "")

    def test_a_click_shows_what_a_patch_attends_to(self):
        self.drop()
        self.js("new MutationObserver(() => { window.early ??= document.querySelector('.pane').classList.contains('drawn'); })"
                ".observe(document.querySelector('.caption'), {childList: true})")
        self.click_the_middle()
        self.browser.wait_for("document.querySelector('.caption').textContent.includes('attention of patch')")
        self.assertIs(self.js("window.early"), False, "the map before stands under the name of the one that is asked for")
        self.browser.wait_for("document.querySelector('.pane.drawn') !== null")
        self.assertEqual(self.js("document.querySelectorAll('.mark.picked').length"), 1)
        self.assertIn("v1/explain?patch=", str(self.browser.problems))
        self.assertEqual(self.js("document.getElementById('message').textContent"), "")
        self.js("(() => { const layer = document.getElementById('layer'); layer.value = 0; layer.dispatchEvent(new Event('input')); })()")
        self.browser.wait_for("document.querySelector('.caption').textContent.includes('layer 0')")

    def test_escape_goes_back_from_a_patch(self):
        self.drop()
        caption = "document.querySelector('.caption').textContent"
        before = self.js(caption)
        self.click_the_middle()
        self.browser.wait_for(f"{caption}.includes('attention of patch')")
        self.assertIn("v1/explain?patch=", self.js("document.querySelector('.command pre').textContent"))
        self.browser.press("Escape")
        self.assertEqual(self.js(caption), before)
        self.assertEqual(self.js("document.querySelectorAll('.mark.picked').length"), 0)

    def test_a_class_that_has_no_map_is_asked_for(self):
        self.drop()
        self.browser.problems.clear()
        buttons = "document.querySelectorAll('.about .top button')"
        self.js(f"{buttons}[1].click()")
        self.assertEqual(self.asked(), [], "its maps are there")
        fifth = self.top()[4]
        self.js(f"{buttons}[4].click()")
        self.browser.wait_for(f"{buttons}[4].ariaPressed === 'true'")
        self.assertIn("class=index%3A", self.asked()[0])
        self.browser.wait_for(DRAWN)
        self.assertIn(fifth, self.js("document.querySelector('.caption').textContent"))
        self.assertEqual(self.js("document.querySelector('[data-aspect=class] select').options.length"), 4)
        self.assertEqual(self.js("document.getElementById('layer').max"), "11")

    def test_the_page_before_and_after_a_picture(self):
        self.assertTrue(self.js("document.getElementById('drop').classList.contains('empty')"))
        self.keep_screenshot("empty")
        self.give(OTTERS)
        self.browser.wait_for("document.querySelector('.views img').naturalWidth > 0")
        self.browser.wait_for(DRAWN)
        self.assertEqual(self.js("document.querySelector('article h2').textContent"), OTTERS.name)
        self.assertIn(f"curl --data-binary @'{OTTERS.name}'", self.js("document.querySelector('.command pre').textContent"))
        self.keep_screenshot("answer")
        self.browser.resize(390, 844)
        self.assertEqual(self.js("document.documentElement.scrollWidth"), 390)
        self.keep_screenshot("answer-390")

    def test_nothing_stale_is_beside_an_error(self):
        self.drop()
        self.give(pathlib.Path(__file__), "image/png")
        self.browser.wait_for("document.getElementById('message').textContent !== ''")
        self.assertIn("live_page_test.py: ", self.message())
        self.assertEqual(self.js("['article', '#controls', '#progress'].filter(each => document.querySelector(each).checkVisibility())"), [])
        self.keep_screenshot("error")
        self.browser.problems[:] = [text for text in self.browser.problems if " 415 " not in text]
        self.drop()
        self.assertEqual(self.message(), "")

    def test_an_error_is_of_what_is_missing(self):
        self.js("(() => { const {fetch} = window; window.fetch = (target, ...more) => target.includes('layer=') ? fetch(target, ...more) :"
                "Promise.resolve(new Response(JSON.stringify({error: {message: 'too late'}}), {status: 504})); })()")
        self.give(PHOTO)
        self.browser.wait_for("document.getElementById('message').textContent !== ''")
        self.assertEqual(self.message(), f"{PHOTO.name}, other layers and classes: too late")
        self.assertEqual(self.js("document.querySelectorAll('.pane').length"), 1)

    def test_axe(self):
        if not ARGUMENTS.axe or not pathlib.Path(ARGUMENTS.axe).exists():
            self.skipTest("no axe-core: scripts/setup.sh tests fetches it")
        self.js(pathlib.Path(ARGUMENTS.axe).read_text() + ";0")
        for state in ("empty", "answer"):
            if state == "answer":
                self.drop()
                self.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            found = self.js("axe.run().then(result => result.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html)}`))")
            self.assertEqual(found, [], state)


class Views(LivePage):
    options = ("--views", "zoom")

    def test_each_view_of_the_record_has_a_frame(self):
        photo = PICTURES.parents[2] / "assets/images/otter-head.jpg"
        record = json.loads(self.server.ask("POST", "/v1/classify", photo.read_bytes())[2])
        self.give(photo)
        self.browser.wait_for(DRAWN)
        box = "document.querySelector('#controls [name=views]')"
        frames = "[...document.querySelectorAll('.view-frames .box')]"
        self.assertFalse(self.js(f"{box}.checked"))
        self.assertFalse(self.js(f"{frames}.some(each => each.checkVisibility())"))
        self.js(f"{box}.click()")
        self.assertTrue(self.js(f"{frames}.every(each => each.checkVisibility())"))
        found = self.js(f"(() => {{ const whole = document.querySelector('.surface').getBoundingClientRect(); return {frames}.map(each => {{"
                        "const {left, top, width, height} = each.getBoundingClientRect();"
                        "return [(left - whole.left) / whole.width, (top - whole.top) / whole.height, width / whole.width, height / whole.height]; }); })()")
        views = sorted(record["views"], key=lambda view: view["weight"])
        self.assertEqual(len(found), len(views))
        width, height = record["width"], record["height"]
        wanted = [(each["left"] / width, each["top"] / height, each["width"] / width, each["height"] / height) for each in (view["box"] for view in views)]
        for places, other in zip(sorted(found), sorted(wanted)):
            for one, another in zip(places, other):
                self.assertAlmostEqual(one, another, delta=0.002)
        # A class that is asked for has new views, which show the frames as well.
        buttons = "document.querySelectorAll('.about .top button')"
        self.js(f"{buttons}[4].click()")
        self.browser.wait_for(f"{buttons}[4].ariaPressed === 'true'")
        self.assertEqual(self.js(f"{frames}.filter(each => each.checkVisibility()).length"), len(views))
        self.keep_screenshot("views")
        self.browser.wait_for(DRAWN)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--axe")
    parser.add_argument("--screenshots", help="keep pictures of the page in this folder")
    ARGUMENTS, rest = parser.parse_known_args()
    if not chromium.find():
        print("SKIPPED: no Chromium (scripts/setup.sh tests installs it)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest])
