#!/usr/bin/env python3
"""HTML reports in a headless Chromium: page_test.py SAMPLE_REPORT [--axe axe.min.js] [--screenshots FOLDER]

SAMPLE_REPORT writes reports and what must be found in them. Exits with 77 where there is no Chromium.
Python 3.8 or newer.
"""

import argparse
import base64
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import chromium
from browser_case import BrowserTest, ReportTest, quoted
from reading_test import Reading, TwoModels, ZoomViews  # noqa: F401  (its tests run, too)

SKIPPED = 77
MAPS = (("hydra", 11), ("attention", 10))  # in expected.json
MOST_BYTES = 25_000_000  # of 50 pictures with 72 maps of 14 x 14 cells each
SLOWEST_FRAMES = 45  # a second, of 60: other tests share the processors; alone it is 60


class Page(ReportTest):
    def test_overlays_are_the_programs(self):
        for index, case in enumerate(self.expected):
            self.go(index if index < 3 else 4)  # the fourth is the failure
            for method, layer in MAPS:
                with self.subTest(name=case["name"], method=method):
                    self.js(f"pick('method', {quoted(method)})")
                    self.js(f"setLayer({layer - 9})")
                    self.js("adjust('opacity', 1)")
                    self.assert_colors(case[method]["colors"], self.sampled(case[method]["colors"]))

    def test_a_cell_without_a_number_shows_the_picture(self):
        self.go(6)
        self.js("adjust('opacity', 0)")
        corners = "[...shown().data.slice(0, 3), ...shown().data.slice(-4, -1)]"
        picture = self.js(corners)
        self.js("adjust('opacity', 1)")
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
        seen = {self.js("digest()")}
        for change in ("pick('class', 'weasel')", "pick('class', 'tench')", "setLayer(0)", "pick('method', 'attention')",
                       "pick('head', '1')", "pick('method', 'rollout')"):
            self.js(change)
            digest = self.js("digest()")
            self.assertNotIn(digest, seen, change)
            seen.add(digest)
        # Rollout has one map: nothing but the method is left to choose.
        self.assertEqual(self.js("[...form.querySelectorAll('[data-aspect]')].map(each => "
                                 "each.querySelector('select').checkVisibility())"), [True, False, False])
        self.assertEqual(self.js("[layer(), document.getElementById('layer').disabled]"), ["11", True])
        self.assertIn("rollout", self.js("pane().querySelector('.caption').textContent"))

    def test_every_look_changes_the_picture(self):
        self.js("pick('method', 'attention')")
        seen = {self.js("digest()")}
        self.js("adjust('opacity', 0.9)")
        digest = self.js("digest()")
        self.assertNotIn(digest, seen)
        seen.add(digest)
        tables = self.js("[...form.querySelectorAll('[data-look=colormap] option')].map(each => each.text)")
        self.assertGreaterEqual(len(tables), 4)
        for table in tables:
            self.js(f"pick('colormap', {quoted(table)})")
            digest = self.js("digest()")
            self.assertEqual(digest in seen, table == "inferno", table)
            seen.add(digest)

    def test_the_sign_is_chosen(self):
        shown = "[...form.querySelectorAll('[data-look]')].filter(each => !each.hidden).map(each => each.dataset.look)"
        self.assertEqual(self.js(shown), ["sign", "signedColormap"])
        both = self.js("digest()")
        ticks = "[...pane().querySelectorAll('.ticks span')].map(each => parseFloat(each.textContent))"
        low, middle, high = self.js(ticks)
        self.assertEqual((low, middle), (-high, 0))
        for sign in ("positive", "absolute"):
            self.js(f"pick('sign', {quoted(sign)})")
            self.assertEqual(self.js(shown), ["sign", "colormap"])
            self.assertNotEqual(self.js("digest()"), both)
            self.assertGreaterEqual(self.js(ticks)[0], 0)

    def test_choices_go_along_from_picture_to_picture(self):
        self.js("pick('method', 'attention')")
        self.js("adjust('opacity', 0.25)")
        self.go(29)
        self.assertIn("attention", self.js("pane().querySelector('.caption').textContent"))
        self.assertEqual(self.js("[part(28).checkVisibility(), part(0).checkVisibility()]"), [True, False])
        self.assertEqual(self.js("document.querySelectorAll('.pane').length"), 1)

    def test_the_downloaded_map_is_the_computed_one(self):
        data = self.download("document.getElementById('save-map').click()",
                             "crop.jpg.hydra.layer11.head-mean.class360.npy")
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        start = 10 + struct.unpack("<H", data[8:10])[0]
        self.assertEqual(start % 64, 0)
        self.assertIn(b"'shape': (14, 14)", data[:start])
        self.assertEqual(data[start:], struct.pack("<196f", *self.expected[0]["hydra"]["values"]))

    def test_the_saved_picture_is_what_is_shown(self):
        data = self.download("document.getElementById('save-picture').click()",
                             "crop.jpg.hydra.layer11.head-mean.class360.png")
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", data[16:24]), (480, 386))  # with two lines for the caption
        same = self.js("(async () => { const image = new Image();"
                       f"image.src = 'data:image/png;base64,{base64.b64encode(data).decode()}'; await image.decode();"
                       "const canvas = document.createElement('canvas'); canvas.width = 480; canvas.height = 360;"
                       "const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);"
                       "const saved = context.getImageData(0, 0, 480, 360).data;"
                       "return shown().data.every((value, i) => Math.abs(value - saved[i]) <= 2); })()")
        self.assertTrue(same)

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

    def test_contrast_of_what_is_no_text(self):
        style = "getComputedStyle({}).{}".format
        article = style("part(0)", "backgroundColor")
        bar = "part(0).querySelector('.bar')"
        pairs = [(style(f"{bar}.firstChild", "backgroundColor"), style(bar, "backgroundColor"))]
        for field in ("form.querySelector('select')", "document.getElementById('filter')",
                      "document.getElementById('save-map')"):
            border = style(field, "borderTopColor")
            pairs += [(border, article), (border, style(field, "backgroundColor"))]
        for theme in ("light", "dark"):
            self.browser.prefer(theme)
            for one, other in pairs:
                self.assertGreaterEqual(self.js(f"contrast({one}, {other})"), 3, f"{theme}: {one}")

    def test_widths(self):
        for width, height, theme in ((1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"), (320, 640, "dark")):
            self.browser.resize(width, height)
            self.browser.prefer(theme)
            for page in ("report.html", "pair.html"):
                self.load(page)
                self.js("form.querySelector('details').open = true")
                self.assertEqual(self.js("document.documentElement.scrollWidth"), width, page)
                self.keep_screenshot(f"{page}-{width}-{theme}")

    def test_without_scripts_pictures_and_predictions_are_there(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.open((self.samples / "report.html").as_uri())
            shown = self.js("[...document.querySelectorAll('article.picture')].every(each => "
                            "each.querySelector('img').checkVisibility() && each.querySelector('img').naturalWidth > 0 &&"
                            "each.querySelectorAll('.top li').length === 3)")
            self.assertTrue(shown)
            self.assertFalse(self.js("document.getElementById('controls').checkVisibility()"))
            self.keep_screenshot("without-scripts")
        finally:
            self.browser.call("Emulation.setScriptExecutionDisabled", value=False)


class FineMap(BrowserTest):
    def test_pictures_of_fine_maps_are_large(self):
        self.load("fine.html")
        self.assertEqual(self.js("[pane().querySelector('img').naturalWidth, pane().querySelector('img').naturalHeight]"),
                         [1920, 1080])

    def test_twelve_layers_are_scrubbed_at_sixty_frames_a_second(self):
        self.load("fine.html")
        rate = 0
        for _ in range(10):  # other programs may be busy for a while
            rate = max(rate, self.js("frameRate(120, i => { const slider = document.getElementById('layer');"
                                     "slider.value = i % 12; slider.dispatchEvent(new Event('input')); })"))
            if rate > SLOWEST_FRAMES:
                break
        print(f"{rate:.1f} frames a second", file=sys.stderr)
        self.assertGreater(rate, SLOWEST_FRAMES)
        self.keep_screenshot("fine")


class FirstLook(BrowserTest):
    """The page shows the program's drawing of the same options before anything is chosen in it."""

    def test_first_looks_are_the_programs(self):
        for case in json.loads((self.samples / "first_looks.json").read_text()):
            self.load(case["page"])
            for index, colors in enumerate(case["pictures"]):
                with self.subTest(page=case["page"], picture=index):
                    self.go(index)
                    self.assert_colors(colors, self.sampled(colors))
            self.keep_screenshot(case["page"])


class ManyPictures(BrowserTest):
    def test_fifty_pictures_with_all_their_maps(self):
        self.assertLess((self.samples / "large.html").stat().st_size, MOST_BYTES)
        self.load("large.html")
        self.assertEqual(self.js("document.querySelectorAll('article.picture').length"), 50)
        seen = set()
        for index in (0, 24, 49):
            self.go(index)
            seen.add(self.js("digest()"))
        for method, class_name, layer in (("hydra", "weasel", "0"), ("attention", "otter", "7")):
            self.js(f"pick('method', {quoted(method)})")
            self.js(f"pick('class', {quoted(class_name)})")
            self.js(f"setLayer({layer})")
            self.assertIn(f"{method} \u00b7 layer {layer}", self.js("pane().querySelector('.caption').textContent"))
            seen.add(self.js("digest()"))
        self.assertEqual(len(seen), 5)
        self.keep_screenshot("large")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample_report", type=pathlib.Path)
    parser.add_argument("--axe", type=pathlib.Path, help="axe-core, which checks accessibility")
    parser.add_argument("--screenshots", help="keep pictures of the page in this folder")
    BrowserTest.arguments, rest = parser.parse_known_args()
    if chromium.find() is None:
        print("SKIPPED: no Chromium (" + ", ".join(chromium.NAMES) + ", or HYDRASCOPE_CHROMIUM)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="hydrascope-page-") as folder:
        BrowserTest.samples = pathlib.Path(folder)
        subprocess.run([BrowserTest.arguments.sample_report, folder], check=True)
        unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
