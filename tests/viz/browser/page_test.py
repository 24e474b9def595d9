#!/usr/bin/env python3
"""HTML reports in a headless Chromium: page_test.py SAMPLE_REPORT [--screenshots FOLDER]

SAMPLE_REPORT writes reports and what must be found in them. Exits with 77 where there is no Chromium.
Python 3.8 or newer.
"""

import argparse
import base64
import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import chromium

SKIPPED = 77
MAPS = (("hydra", 11), ("attention", 10))  # in expected.json
MOST_BYTES = 25_000_000  # of 50 pictures with 72 maps of 14 x 14 cells each
arguments = None
samples = None  # the folder of what SAMPLE_REPORT wrote

HELPERS = (pathlib.Path(__file__).resolve().parent / "page_helpers.js").read_text()


def quoted(text):
    return json.dumps(text)


def setUpModule():
    global samples
    folder = tempfile.TemporaryDirectory(prefix="hydrascope-page-")
    unittest.addModuleCleanup(folder.cleanup)
    samples = pathlib.Path(folder.name)
    subprocess.run([arguments.sample_report, samples], check=True)


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.Chromium(chromium.find())
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.problems.clear()
        self.browser.resize(1280, 900)
        self.browser.prefer("light")

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])

    def load(self, name="report.html"):
        self.browser.open((samples / name).as_uri())
        self.browser.evaluate(HELPERS)
        self.browser.wait_for("document.querySelectorAll('article.drawn').length > 0")

    def js(self, expression):
        return self.browser.evaluate(expression)

    def draw(self, index):
        """Scrolls to a picture and waits until it is drawn."""
        self.js(f"part({index}).scrollIntoView()")
        self.browser.wait_for(f"part({index}).classList.contains('drawn')")
        self.js("frames()")

    def keep_screenshot(self, name):
        if arguments.screenshots:
            file = pathlib.Path(arguments.screenshots) / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(self.browser.screenshot()))

    def sampled(self, index, positions):
        return self.js(f"(() => {{ const data = pixels({index}), width = canvas({index}).width;"
                       f"return {json.dumps(positions)}.map(([x, y]) =>"
                       "[...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]); })()")

    def assert_colors(self, wanted, found):
        """Of pixels [x, y, color]; a colour of null: what the model did not see."""
        self.assertGreater(len(found), 500)
        for (x, y, color), there in zip(wanted, found):
            if color is None:
                self.assertLess(max(there), 140, f"pixel {x}, {y} is not dimmed")
            else:
                self.assertLessEqual(max(abs(a - b) for a, b in zip(color, there)), 3, f"pixel {x}, {y}")


class Page(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = json.loads((samples / "expected.json").read_text(errors="replace"))

    def setUp(self):
        super().setUp()
        self.load()

    def test_overlays_are_the_programs(self):
        for index, case in enumerate(self.expected):
            self.draw(index)
            for (method, layer), kind in itertools.product(MAPS, ("blocks", "smooth")):
                with self.subTest(name=case["name"], method=method, kind=kind):
                    self.js(f"pick(part({index}), 'method', {quoted(method)})")
                    self.js(f"pick(part({index}), 'layer', '{layer}')")
                    self.js(f"adjust(part({index}), 'smooth', {json.dumps(kind == 'smooth')})")
                    self.js(f"adjust(part({index}), 'opacity', 0)")
                    positions = [[x, y] for x, y, _ in case[method][kind]]
                    pictures = self.sampled(index, positions)
                    self.js(f"adjust(part({index}), 'opacity', 1)")
                    found = self.sampled(index, positions)
                    self.assert_colors(case[method][kind], found)
                    unseen = [i for i, (_, _, color) in enumerate(case[method][kind]) if color is None]
                    self.assertEqual([found[i] for i in unseen], [pictures[i] for i in unseen])

    def test_a_cell_without_a_number_shows_the_picture(self):
        self.draw(5)
        for name, value in (("smooth", False), ("opacity", 0)):
            self.js(f"adjust(part(5), {quoted(name)}, {json.dumps(value)})")
        corners = "[...pixels(5).slice(0, 3), ...pixels(5).slice(-4, -1)]"
        picture = self.js(corners)
        self.js("adjust(part(5), 'opacity', 1)")
        heated = self.js(corners)
        self.assertEqual(heated[:3], picture[:3])
        self.assertNotEqual(heated[3:], picture[3:])

    def test_names_are_text(self):
        names = self.js("[...document.querySelectorAll('main > article > h2')].map(each => each.textContent)")
        self.assertEqual(len(names), 32)
        self.assertEqual(names[3], "bad </article>.jpg")
        self.assertEqual(names[5], "</script><script>throw 1</script>\"'&amp; \ufffd\ufffd \U0001F9A6.jpg")
        self.assertEqual(self.js("document.title"), "Heat maps of \"synthetic\" <pictures>")
        self.assertEqual(self.js("document.getElementById('counts').textContent.trim()"),
                         "31 pictures, 1 could not be read")
        self.assertEqual(self.js("document.querySelectorAll('main > .failure').length"), 1)

    def test_every_choice_changes_the_picture(self):
        seen = {self.js("digest(0)")}
        for aspect, text in (("class", "weasel"), ("class", "tench"), ("layer", "9"), ("method", "attention"),
                             ("head", "1"), ("method", "rollout")):
            self.js(f"pick(part(0), {quoted(aspect)}, {quoted(text)})")
            digest = self.js("digest(0)")
            self.assertNotIn(digest, seen, f"{aspect} {text}")
            seen.add(digest)
        # Rollout has one map: nothing but the method is left to choose.
        self.assertEqual(self.js("[...part(0).querySelectorAll('[data-aspect]')].map(each => "
                                 "each.querySelector('select').checkVisibility())"), [True, False, False, False])
        self.assertEqual(self.js("part(0).querySelector('[data-aspect=layer] .only').textContent"), "11")
        self.assertIn("rollout", self.js("part(0).querySelector('.caption').textContent"))

    def test_every_look_changes_the_picture(self):
        self.js("pick(part(0), 'method', 'attention')")
        seen = {self.js("digest(0)")}
        for name, value in (("opacity", 0.9), ("fade", True), ("smooth", False)):
            self.js(f"adjust(part(0), {quoted(name)}, {json.dumps(value)})")
            digest = self.js("digest(0)")
            self.assertNotIn(digest, seen, name)
            seen.add(digest)
        tables = self.js("[...part(0).querySelectorAll('[data-look=colormap] option')].map(each => each.text)")
        self.assertGreaterEqual(len(tables), 4)
        for table in tables:
            self.js("(async () => { const select = part(0).querySelector('[data-look=colormap] select');"
                    f"select.value = [...select.options].find(each => each.text === {quoted(table)}).value;"
                    "select.dispatchEvent(new Event('change')); return frames(); })()")
            digest = self.js("digest(0)")
            self.assertEqual(digest in seen, table == "inferno", table)
            seen.add(digest)
        self.js("adjust(part(0), 'mass', 0.5)")
        self.assertNotIn(self.js("digest(0)"), seen)

    def test_the_sign_is_chosen(self):
        shown = "[...part(0).querySelectorAll('[data-look]')].filter(each => !each.hidden).map(each => each.dataset.look)"
        self.js("part(0).querySelector('.looks').open = true")
        self.assertEqual(self.js(shown), ["sign", "signedColormap"])
        both = self.js("digest(0)")
        ticks = "[...part(0).querySelectorAll('.ticks span')].map(each => Number(each.textContent))"
        low, middle, high = self.js(ticks)
        self.assertEqual((low, middle), (-high, 0))
        for sign in ("positive", "absolute"):
            self.js("(async () => { const select = part(0).querySelector('[data-look=sign] select');"
                    f"select.value = [...select.options].find(each => each.text === {quoted(sign)}).value;"
                    "select.dispatchEvent(new Event('change')); return frames(); })()")
            self.assertEqual(self.js(shown), ["sign", "colormap"])
            self.assertNotEqual(self.js("digest(0)"), both)
            self.assertGreaterEqual(self.js(ticks)[0], 0)

    def test_global_choices_reach_every_picture(self):
        self.draw(1)
        before = [self.js(f"digest({i})") for i in (0, 1)]
        self.js("pick(globalForm, 'method', 'attention')")
        self.assertTrue(all(self.js(f"digest({i})") != before[i] for i in (0, 1)))
        self.draw(28)  # not made before
        self.assertIn("attention", self.js("part(28).querySelector('.caption').textContent"))
        self.js("adjust(globalForm, 'opacity', 0.25)")
        self.assertEqual(self.js("part(28).querySelector('[name=opacity]').value"), "0.25")

    def test_hover_says_the_value(self):
        values = self.expected[0]["hydra"]
        x, y = self.cell_of_crop(3, 8)
        self.browser.move_mouse(x, y)
        text = self.js("readout(0)")
        self.assertTrue(text.startswith("row 3, column 8: "), text)
        self.assertAlmostEqual(float(text.split(": ")[1]), values["values"][3 * values["columns"] + 8], delta=1e-3)
        self.browser.move_mouse(self.unseen_x(), y)
        self.assertEqual(self.js("readout(0)"), "not seen by the model")
        self.browser.move_mouse(1, 1)
        self.assertTrue(self.js("readout(0)").startswith("Point at"))

    def cell_of_crop(self, row, column):
        """The middle of a cell of the first picture: input pixels, moved and scaled back to 480 x 360."""
        box = self.js("box(0)")
        return (box["left"] + ((column + 0.5) * 16 + 58) / 341 * box["width"],
                box["top"] + ((row + 0.5) * 16 + 16) / 256 * box["height"])

    def unseen_x(self):
        return self.js("box(0)")["left"] + 2

    def test_a_tap_says_the_value_and_leaves_it(self):
        self.js("void (globalThis.followed = new Promise(done => canvas(0).addEventListener('click', () => done(true))))")
        self.browser.tap(*self.cell_of_crop(3, 8))
        self.assertTrue(self.js("followed"))
        self.assertTrue(self.js("readout(0)").startswith("row 3, column 8: "), self.js("readout(0)"))
        self.assertTrue(self.js("document.activeElement === canvas(0)"))

    def test_a_click_says_what_is_under_it(self):
        x, y = self.cell_of_crop(3, 8)
        self.browser.click(self.unseen_x(), y)
        self.assertEqual(self.js("readout(0)"), "not seen by the model")
        self.browser.click(x, y)
        self.assertTrue(self.js("readout(0)").startswith("row 3, column 8: "))

    def test_the_mouse_does_not_take_the_keyboards_cell_away(self):
        self.js("canvas(0).focus()")
        self.browser.press("ArrowRight")
        self.browser.move_mouse(*self.cell_of_crop(3, 8))
        self.browser.move_mouse(1, 1)
        self.assertTrue(self.js("readout(0)").startswith("row 3, column 8: "), self.js("readout(0)"))
        self.browser.press("ArrowUp")
        self.assertTrue(self.js("readout(0)").startswith("row 2, column 8: "), self.js("readout(0)"))
        self.js("canvas(0).blur()")
        self.assertTrue(self.js("readout(0)").startswith("Point at"))

    def test_keys_move_over_the_cells(self):
        values = self.expected[0]["hydra"]
        self.js("canvas(0).focus()")
        readout = "part(0).querySelector('.readout').value"
        self.assertTrue(self.js(readout).startswith("row 7, column 7: "))
        for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
            self.browser.press(key)
        text = self.js(readout)
        self.assertTrue(text.startswith("row 5, column 8: "), text)
        self.assertAlmostEqual(float(text.split(": ")[1]), values["values"][5 * values["columns"] + 8], delta=1e-3)
        self.browser.press("Home")
        self.browser.press("ArrowLeft")
        self.assertTrue(self.js(readout).startswith("row 5, column 0: "))
        # Only what lies on the picture: the border case shows columns 2 .. 11 of 14.
        self.draw(3)
        self.js("canvas(3).focus()")
        self.browser.press("End")
        self.assertIn("column 11:", self.js("part(3).querySelector('.readout').value"))

    def test_the_downloaded_map_is_the_computed_one(self):
        case = self.expected[0]["hydra"]
        with tempfile.TemporaryDirectory(prefix="hydrascope-download-") as folder:
            self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            self.js("part(0).querySelector('.download').click()")
            file = pathlib.Path(folder) / "crop.jpg.hydra.layer11.head-mean.class360.npy"
            end = time.monotonic() + 10
            while not file.exists() and time.monotonic() < end:
                time.sleep(0.05)
            data = file.read_bytes()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        start = 10 + struct.unpack("<H", data[8:10])[0]
        self.assertEqual(start % 64, 0)
        self.assertIn(b"'shape': (14, 14)", data[:start])
        expected = struct.pack("<196f", *case["values"])
        self.assertEqual(data[start:], expected)

    def test_filter_and_failures(self):
        self.js("document.getElementById('index').open = true")
        type_text = ("(text => {{ const box = document.getElementById('filter'); box.value = text;"
                     "box.dispatchEvent(new Event('input')); }})({})")
        shown = "[...document.querySelectorAll('main > article')].filter(each => each.checkVisibility()).length"
        self.js(type_text.format("'MORE/1'"))
        self.assertEqual(self.js(shown), 11)  # more/1.jpg, more/10.jpg ... more/19.jpg
        self.assertEqual(self.js("document.getElementById('matches').value"), "11 of 32")
        self.js(type_text.format("''"))
        self.js("(box => { box.checked = true; box.dispatchEvent(new Event('input')); })"
                "(document.querySelector('#failures-only input'))")
        self.assertEqual(self.js(shown), 1)

    def test_only_what_is_near_is_drawn(self):
        drawn = "[...document.querySelectorAll('canvas[role]')].filter(each => each.width > 300).length"
        self.assertLess(self.js(drawn), 8)
        self.draw(30)
        self.browser.wait_for("canvas(0).width === 1")
        self.assertLess(self.js(drawn), 8)
        self.js("part(0).scrollIntoView()")
        self.browser.wait_for("canvas(0).width > 300")

    def test_themes(self):
        ground = "getComputedStyle(document.body).backgroundColor"
        light = self.js(ground)
        self.browser.prefer("dark")
        dark = self.js(ground)
        self.assertNotEqual(light, dark)
        choose = ("(value => {{ const box = document.getElementById('theme'); box.value = value;"
                  "box.dispatchEvent(new Event('change')); }})({})")
        self.js(choose.format("'light'"))
        self.assertEqual(self.js(ground), light)
        self.browser.prefer("light")
        self.js(choose.format("'dark'"))
        self.assertEqual(self.js(ground), dark)

    def test_contrast(self):
        self.js("document.getElementById('index').open = true")
        style = "getComputedStyle({}).{}".format
        article = style("part(0)", "backgroundColor")
        pairs = [(style("part(0).querySelector('.bar')", "fill"), style("part(0).querySelector('.bar')", "backgroundColor"))]
        for field in ("part(0).querySelector('select')", "document.getElementById('filter')",
                      "part(0).querySelector('.download')"):
            border = style(field, "borderTopColor")
            pairs += [(border, article), (border, style(field, "backgroundColor"))]
        for theme in ("light", "dark"):
            self.browser.prefer(theme)
            for one, other in pairs:
                self.assertGreaterEqual(self.js(f"contrast({one}, {other})"), 3, f"{theme}: {one}")

    def test_controls_that_stay_leave_room(self):
        for width, height in ((1280, 900), (1280, 640), (760, 400), (760, 700), (390, 844), (844, 390), (320, 640)):
            self.browser.resize(width, height)
            self.load()
            self.js("document.getElementById('global').open = true")
            self.js("frames()")
            self.draw(2)
            bottom = self.js("document.getElementById('global').getBoundingClientRect().bottom")
            self.assertLessEqual(bottom, 0.42 * height, f"{width} x {height}")
            self.assertGreaterEqual(self.js("part(2).getBoundingClientRect().top"), max(bottom, 0), f"{width} x {height}")
            self.keep_screenshot(f"{width}x{height}-controls")

    def test_widths(self):
        for width, height, theme in ((1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (320, 640, "dark")):
            self.browser.resize(width, height)
            self.browser.prefer(theme)
            self.load()
            self.assertEqual(self.js("document.documentElement.scrollWidth"), width)
            self.keep_screenshot(f"{width}-{theme}")
            self.js("adjust(globalForm, 'beside', true)")
            self.draw(2)
            self.assertEqual(self.js("document.documentElement.scrollWidth"), width)
            self.keep_screenshot(f"{width}-{theme}-beside")

    def test_everything_that_takes_the_focus_has_a_name(self):
        self.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        nameless = []
        for node in self.browser.call("Accessibility.getFullAXTree")["nodes"]:
            focusable = any(each["name"] == "focusable" and each["value"]["value"] for each in node.get("properties", []))
            role = node.get("role", {}).get("value")
            if focusable and role not in ("RootWebArea", "main") and not node.get("name", {}).get("value"):
                nameless.append(role)
        self.assertEqual(nameless, [])
        self.assertEqual(self.js("document.querySelectorAll('[id]').length"),
                         self.js("new Set([...document.querySelectorAll('[id]')].map(each => each.id)).size"))

    def test_without_scripts_pictures_and_predictions_are_there(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.open((samples / "report.html").as_uri())
            shown = self.js("[...document.querySelectorAll('article.picture')].every(each => "
                            "each.querySelector('img').checkVisibility() && each.querySelector('img').naturalWidth > 0 &&"
                            "each.querySelectorAll('.top li').length === 3)")
            self.assertTrue(shown)
            self.assertFalse(self.js("document.getElementById('global').checkVisibility()"))
            self.keep_screenshot("without-scripts")
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)


class FirstLook(BrowserTest):
    """What the page shows before anything is chosen in it is what the program drew with the same options."""

    def test_first_looks_are_the_programs(self):
        for case in json.loads((samples / "first_looks.json").read_text()):
            self.load(case["page"])
            for index, colors in enumerate(case["pictures"]):
                with self.subTest(page=case["page"], picture=index):
                    self.draw(index)
                    self.assert_colors(colors, self.sampled(index, [[x, y] for x, y, _ in colors]))
            self.keep_screenshot(case["page"])


class ManyPictures(BrowserTest):
    def test_fifty_pictures_with_all_their_maps(self):
        self.assertLess((samples / "large.html").stat().st_size, MOST_BYTES)
        self.load("large.html")
        self.assertEqual(self.js("document.querySelectorAll('article.picture').length"), 50)
        seen = set()
        for index in (0, 24, 49):
            self.draw(index)
            seen.add(self.js(f"digest({index})"))
        for method, class_name, layer in (("hydra", "weasel", "0"), ("attention", "otter", "7")):
            for aspect, text in (("method", method), ("class", class_name), ("layer", layer)):
                self.js(f"pick(globalForm, {quoted(aspect)}, {quoted(text)})")
            self.assertIn(f"{method} \u00b7 layer {layer}", self.js("part(49).querySelector('.caption').textContent"))
            seen.add(self.js("digest(49)"))
        self.assertEqual(len(seen), 5)
        self.keep_screenshot("large")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample_report", type=pathlib.Path)
    parser.add_argument("--screenshots", help="keep pictures of the page in this folder")
    arguments, rest = parser.parse_known_args()
    if chromium.find() is None:
        print("SKIPPED: no Chromium (" + ", ".join(chromium.NAMES) + ", or HYDRASCOPE_CHROMIUM)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
