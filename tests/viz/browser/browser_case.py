"""The common parts of the tests of pages in a headless Chromium."""

import base64
import json
import pathlib
import tempfile
import time
import unittest
import urllib.parse

import chromium

HELPERS = (pathlib.Path(__file__).resolve().parent / "page_helpers.js").read_text()


def quoted(text):
    return json.dumps(text)


class BrowserTest(unittest.TestCase):
    arguments = None
    samples = None  # the folder of what SAMPLE_REPORT wrote

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

    def load(self, name="report.html", address=""):
        self.browser.open("about:blank")  # another address of the same page would not load it again
        self.browser.open((self.samples / name).as_uri() + address)
        self.browser.evaluate(HELPERS)
        self.browser.wait_for("document.querySelector('.pane.drawn') !== null")

    def js(self, expression):
        return self.browser.evaluate(expression)

    def go(self, index):
        """To a picture, drawn."""
        self.js(f"go({index})")
        self.browser.wait_for("document.querySelector('.pane.drawn') !== null")
        self.js("frames()")

    def address(self):
        """The address once it has been kept."""
        time.sleep(0.6)
        return dict(urllib.parse.parse_qsl(self.js("location.hash").lstrip("#")))

    def keep_screenshot(self, name):
        if self.arguments.screenshots:
            file = pathlib.Path(self.arguments.screenshots) / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(self.browser.screenshot()))

    def sampled(self, wanted):
        """The colours at [x, y, color]: of the heat over black, of the picture under it where `color` is null."""
        return self.js("(() => { const [over, heat] = [shown(), shown(0, true)];"
                       f"return {json.dumps(wanted)}.map(([x, y, color]) => [...(color ? heat : over).data.slice("
                       "4 * (y * over.width + x), 4 * (y * over.width + x) + 3)]); })()")

    def assert_colors(self, wanted, found):
        """The colours of pixels [x, y, color], up to the page's steps of a share and of an opacity; null: not seen."""
        self.assertGreater(len(found), 500)
        for (x, y, color), there in zip(wanted, found):
            if color is None:
                self.assertLess(max(there), 150, f"pixel {x}, {y} is not dimmed")  # the sky has 220
            else:
                self.assertLessEqual(max(abs(a - b) for a, b in zip(color, there)), 4, f"pixel {x}, {y}")

    def download(self, click, name):
        """The bytes of the file that a click leaves."""
        with tempfile.TemporaryDirectory(prefix="hydrascope-download-") as folder:
            self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            self.js(click)
            file = pathlib.Path(folder) / name
            end = time.monotonic() + 10
            while not file.exists() and time.monotonic() < end:
                time.sleep(0.05)
            return file.read_bytes()


class ReportTest(BrowserTest):
    """Tests of report.html, with the program's drawing of the same maps."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = json.loads((cls.samples / "expected.json").read_text(errors="replace"))

    def setUp(self):
        super().setUp()
        self.load()

    def cell_of_crop(self, row, column):
        """The middle of a cell of the first picture: input pixels, moved and scaled back to 480 x 360."""
        box = self.js("box()")
        return (box["left"] + ((column + 0.5) * 16 + 58) / 341 * box["width"],
                box["top"] + ((row + 0.5) * 16 + 16) / 256 * box["height"])

    def show_the_picture(self):
        self.js("surface().scrollIntoView({block: 'center'})")
        self.js("frames()")

    def unseen_x(self):
        return self.js("box()")["left"] + 40
