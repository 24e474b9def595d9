"""Reading a page by mouse, finger and keys, and by whom: tests of page_test.py."""

import base64
import itertools
import json
import re
import struct
import time
import urllib.parse

from browser_case import BrowserTest, ReportTest, quoted

AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


class Reading(ReportTest):
    def test_layers_are_scrubbed_by_mouse_keys_and_play(self):
        slider = self.js("(({left, top, width, height}) => ({left, top, width, height}))"
                         "(document.getElementById('layer').getBoundingClientRect())")
        middle = slider["top"] + slider["height"] / 2
        self.browser.drag((slider["left"] + slider["width"] - 8, middle), (slider["left"] + 4, middle))
        self.assertEqual(self.js("layer()"), "9")
        first = self.js("(async () => { await frames(); return digest(); })()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.js("[layer(), document.getElementById('layer').getAttribute('aria-valuetext')]"),
                         ["10", "layer 10"])
        self.assertNotEqual(self.js("(async () => { await frames(); return digest(); })()"), first)
        self.js("form.querySelector('.play').focus()")
        self.browser.press("Enter")
        self.assertEqual(self.js("form.querySelector('.play').getAttribute('aria-pressed')"), "true")
        for wanted in ("11", "9", "10"):
            self.browser.wait_for(f"layer() === {quoted(wanted)}")
        self.browser.press(" ")
        stopped = self.js("layer()")
        time.sleep(0.6)
        self.assertEqual(self.js("layer()"), stopped)

    def test_the_split_shows_the_picture_before_it(self):
        self.show_the_picture()
        box = self.js("box()")
        x, y = box["left"], box["top"] + box["height"] / 2
        self.browser.drag((x + 1, y), (x + box["width"] / 2, y))
        split = float(self.js("pane().querySelector('.split').value"))
        self.assertAlmostEqual(split, 0.5, delta=0.03)
        clip = "pane().querySelector('.heat').style.clipPath"
        self.assertEqual(self.js(clip), f"inset(0px 0px 0px {100 * split:g}%)")
        self.assertEqual(self.js("document.activeElement.className"), "split")
        self.browser.press("End")
        self.assertEqual(self.js(clip), "inset(0px 0px 0px 100%)")
        self.browser.press("Home")
        self.assertEqual(self.js(clip), "")
        self.assertEqual(self.js("pane().querySelector('.split').getAttribute('aria-valuetext')"), "picture 0 percent")

    def test_hover_says_the_value(self):
        self.show_the_picture()
        values = self.expected[0]["hydra"]
        x, y = self.cell_of_crop(3, 8)
        self.browser.move_mouse(x, y)
        text = self.js("readout()")
        self.assertTrue(text.startswith("row 3, column 8: "), text)
        self.assertAlmostEqual(float(text.split(": ")[1].split(",")[0]), values["values"][3 * values["columns"] + 8], delta=1e-3)
        share = 100 * values["values"][3 * values["columns"] + 8] / sum(map(abs, values["values"]))
        self.assertTrue(text.endswith(f", {float(f'{share:.3g}'):g}\u00a0% of all patches"), text)
        self.assertEqual(self.js("pane().querySelector('.tip').textContent") + " of all patches", text.split(", ")[-1])
        self.browser.move_mouse(self.unseen_x(), y)
        self.assertEqual(self.js("readout()"), "not seen by the model")
        self.browser.move_mouse(1, 1)
        self.assertTrue(self.js("readout()").startswith("Point at"))

    def test_a_tap_says_the_value_and_leaves_it(self):
        self.show_the_picture()
        self.js("void (globalThis.followed = new Promise(done => surface().addEventListener('click', () => done(true))))")
        self.browser.tap(*self.cell_of_crop(3, 8))
        self.assertTrue(self.js("followed"))
        self.assertTrue(self.js("readout()").startswith("row 3, column 8: "), self.js("readout()"))
        self.assertTrue(self.js("document.activeElement === surface()"))

    def test_a_click_says_what_is_under_it(self):
        self.show_the_picture()
        x, y = self.cell_of_crop(3, 8)
        self.browser.click(self.unseen_x(), y)
        self.assertEqual(self.js("readout()"), "not seen by the model")
        self.browser.click(x, y)
        self.assertTrue(self.js("readout()").startswith("row 3, column 8: "))

    def test_the_mouse_does_not_take_the_keyboards_cell_away(self):
        self.show_the_picture()
        self.js("surface().focus({preventScroll: true})")
        self.browser.press("ArrowRight")
        self.browser.move_mouse(*self.cell_of_crop(3, 8))
        self.browser.move_mouse(1, 1)
        self.assertTrue(self.js("readout()").startswith("row 3, column 8: "), self.js("readout()"))
        self.browser.press("ArrowUp")
        self.assertTrue(self.js("readout()").startswith("row 2, column 8: "), self.js("readout()"))
        self.js("surface().blur()")
        self.assertTrue(self.js("readout()").startswith("Point at"))

    def test_keys_move_over_the_cells(self):
        values = self.expected[0]["hydra"]
        self.js("surface().focus()")
        self.assertTrue(self.js("readout()").startswith("row 7, column 7: "), self.js("readout()"))
        for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
            self.browser.press(key)
        text = self.js("readout()")
        self.assertTrue(text.startswith("row 5, column 8: "), text)
        self.assertAlmostEqual(float(text.split(": ")[1].split(",")[0]), values["values"][5 * values["columns"] + 8], delta=1e-3)
        self.browser.press("Home")
        self.browser.press("ArrowLeft")
        self.assertTrue(self.js("readout()").startswith("row 5, column 0: "))
        # Only what lies on the picture: the border case shows columns 2 .. 11 of 14.
        self.go(4)
        self.js("surface().focus()")
        self.browser.press("End")
        self.assertIn("column 11:", self.js("readout()"))

    def test_a_picture_is_zoomed_and_moved(self):
        self.show_the_picture()
        window = "pane().querySelector('.window')"
        frame = self.js(f"(({{left, top, width, height}}) => [left, top, width, height])({window}.getBoundingClientRect())")
        x, y = self.cell_of_crop(3, 8)
        for _ in range(3):
            self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-60, modifiers=2)
        self.browser.wait_for("pane().classList.contains('zoomed')")
        self.js("frames()")
        wide = self.js("box().width")
        self.assertAlmostEqual(wide / frame[2], 6.05, delta=0.1)  # exp(1.8)
        self.assertEqual(self.js(f"(({{left, top, width, height}}) => [left, top, width, height])({window}.getBoundingClientRect())"), frame)
        self.browser.move_mouse(x + 1, y)
        self.assertTrue(self.js("readout()").startswith("row 3, column 8: "), "the pointer is where it was")
        self.assertGreater(self.js("pane().querySelector('.heat').width"), 480 - 1)
        self.js("surface().focus({preventScroll: true})")
        self.browser.press("Escape")
        self.js("pane().querySelectorAll('.zoom button')[0].click()")
        self.assertAlmostEqual(self.js("box().width"), wide / 1.5, delta=1)
        self.js("surface().dispatchEvent(new KeyboardEvent('keydown', {key: '0', bubbles: true}))")
        self.assertAlmostEqual(self.js("box().width"), frame[2], delta=1)
        self.assertFalse(self.js("pane().classList.contains('zoomed')"))
        self.assertEqual(self.js("document.documentElement.scrollWidth"), 1280)

    def test_the_strip_shows_the_layers(self):
        self.browser.wait_for("document.querySelectorAll('.strip canvas').length === 3")
        chosen = "document.querySelector('.strip .chosen').textContent"
        self.assertEqual(self.js(chosen), "11")
        drawn = "[...document.querySelectorAll('.strip canvas')].map(each => each.toDataURL())"
        self.browser.wait_for(f"new Set({drawn}).size === 3")
        self.js("document.querySelectorAll('.strip figure')[0].click()")
        self.assertEqual(self.js(f"[layer(), {chosen}]"), ["9", "9"])
        self.js("pick('method', 'rollout')")
        self.assertFalse(self.js("document.querySelector('.strip').checkVisibility()"))

    def test_a_class_in_the_list_is_explained(self):
        buttons = "[...part(0).querySelectorAll('.top button')]"
        self.assertEqual(self.js(f"{buttons}.map(each => each.ariaPressed)"), ["true", "false"])
        before = self.js("digest()")
        self.js(f"{buttons}[1].click()")
        self.js("frames()")
        self.assertNotEqual(self.js("digest()"), before)
        self.assertEqual(self.js(f"{buttons}.map(each => each.ariaPressed)"), ["false", "true"])
        self.assertIn("weasel (3.0", self.js("pane().querySelector('.caption').textContent"))
        self.assertEqual(self.js("pane().querySelector('.measure').textContent"),
                         "Contribution to the logit of weasel, share of all patches")

    def test_a_rectangle_is_added_up(self):
        self.show_the_picture()
        case = self.expected[0]["hydra"]
        wanted = sum(case["values"][row * case["columns"] + column] for row in range(3, 6) for column in range(4, 9))
        self.browser.drag(self.cell_of_crop(5, 4), self.cell_of_crop(3, 8))
        text = self.js("sum()")
        self.assertTrue(text.startswith("rows 3 to 5, columns 4 to 8: "), text)
        self.assertAlmostEqual(float(text.split(": ")[1].split()[0]), wanted, delta=2e-3)
        self.assertIn("of the 8 that this layer adds to the logit", text)
        self.assertIn(f"{100 * wanted / 8:.1f}\u00a0%", text)
        self.js("pick('method', 'attention')")
        self.assertIn("of the 1 that all tokens hold", self.js("sum()"))
        self.browser.click(*self.cell_of_crop(1, 1))
        self.assertEqual(self.js("sum()"), "")
        # The same by keys.
        self.js("surface().blur(); surface().focus()")
        for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
            self.browser.press(key, shift=True)
        self.assertRegex(self.js("sum()"), r"^rows \d+ to \d+, columns \d+ to \d+: ")
        rows = re.findall(r"\d+", self.js("sum()"))[:4]
        self.assertEqual([int(rows[1]) - int(rows[0]), int(rows[3]) - int(rows[2])], [2, 1])
        self.browser.press("Escape")
        self.assertEqual(self.js("sum()"), "")

    def test_the_address_keeps_what_is_shown(self):
        self.go(1)
        for change in ("pick('class', 'weasel')", "setLayer(1)", "setSplit(0.25)"):
            self.js(change)
        digest = self.js("digest()")
        words = self.address()
        self.assertEqual(words, {"picture": "2", "method": "hydra", "class": "356", "layer": "10", "head": "mean",
                                 "split": "0.25"})
        self.load(address="#" + urllib.parse.urlencode(words))
        self.js("frames()")
        self.assertTrue(self.js("part(1).checkVisibility()"))
        self.assertEqual(self.js("[digest(), pane().querySelector('.split').value]"), [digest, "0.25"])
        self.js("location.hash = '#picture=1&method=attention&head=1&layer=9'")
        self.browser.wait_for("part(0).checkVisibility() && document.querySelector('.pane.drawn') !== null")
        self.assertIn("attention \u00b7 layer 9 \u00b7 head 1", self.js("pane().querySelector('.caption').textContent"))
        # A missing part is left out, and nothing fails.
        self.load(address="#picture=99&layer=x&method=none&class=-1&split=7")
        self.assertTrue(self.js("part(0).checkVisibility()"))
        self.load(address="#picture=2&layer=99&method=none&class=5000&split=7")
        self.assertTrue(self.js("part(1).checkVisibility()"))
        self.assertEqual(self.js("[layer(), pane().querySelector('.split').value]"), ["11", "0"])

    def test_arrow_keys_go_from_picture_to_picture(self):
        current = "[...document.querySelectorAll('#entries a')].findIndex(each => each.ariaCurrent)"
        self.assertEqual(self.js(current), 0)
        self.browser.press("ArrowRight")  # nothing has the focus yet
        self.assertEqual(self.js(current), 1)
        self.assertTrue(self.js("document.activeElement.ariaCurrent === 'true'"))
        across = self.js("(links => links.filter(each => each.offsetTop === links[0].offsetTop).length)"
                         "([...document.querySelectorAll('#entries li')])")
        for key, wanted in (("ArrowDown", 1 + across), ("ArrowUp", 1), ("ArrowLeft", 0), ("ArrowLeft", 0), ("End", 31),
                            ("Home", 0)):
            self.browser.press(key)
            self.assertEqual(self.js(current), wanted, key)
        self.assertEqual(self.js("[...document.querySelectorAll('#entries a')].filter(each => each.tabIndex === 0).length"), 1)

    def test_the_picture_is_on_the_first_screen(self):
        self.browser.resize(1280, 800)
        top, left = self.js("(({top, left}) => [top, left])(pane().querySelector('.stage').getBoundingClientRect())")
        self.assertLess(top, 400)
        self.assertGreater(self.js("form.getBoundingClientRect().left"), left, "what is chosen stands beside it")
        self.assertLess(self.js("form.getBoundingClientRect().top"), 800)

    def test_the_tabulator_reaches_everything_in_order(self):
        reached = []
        for _ in range(40):
            self.browser.press("Tab")
            reached.append(self.js("document.activeElement.id || document.activeElement.className ||"
                                   "document.activeElement.closest('[id]')?.id + ' ' + document.activeElement.tagName"))
            if reached.count(reached[0]) > 1 or "save-map" in reached:
                break
        wanted = ["skip", "theme", "filter", "entries A", "surface", "split", "choice-1", "play", "layer",
                  "save-picture", "save-map"]
        self.assertEqual([each for each in reached if each in wanted], wanted, reached)
        self.js("document.querySelector('.skip').focus()")
        self.browser.press("Enter")
        self.assertEqual(self.js("document.activeElement.id"), "main")

    def test_filter_and_failures(self):
        type_text = ("(text => {{ const box = document.getElementById('filter'); box.value = text;"
                     "box.dispatchEvent(new Event('input')); }})({})")
        shown = "[...document.querySelectorAll('#entries li')].filter(each => each.checkVisibility()).length"
        self.js(type_text.format("'MORE/1'"))
        self.assertEqual(self.js(shown), 11)  # more/1.jpg, more/10.jpg ... more/19.jpg
        self.assertEqual(self.js("document.getElementById('matches').value"), "11 of 32")
        self.js(type_text.format("''"))
        self.js("(box => { box.checked = true; box.dispatchEvent(new Event('input')); })"
                "(document.querySelector('#failures-only input'))")
        self.assertEqual(self.js(shown), 1)
        self.js("document.querySelectorAll('#entries a')[3].click()")
        self.assertTrue(self.js("document.querySelector('main > .failure').checkVisibility()"))
        self.assertFalse(self.js("form.checkVisibility()"))

    def test_everything_that_takes_the_focus_has_a_name(self):
        self.load("pair.html")
        self.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        nameless = []
        for node in self.browser.call("Accessibility.getFullAXTree")["nodes"]:
            focusable = any(each["name"] == "focusable" and each["value"]["value"] for each in node.get("properties", []))
            role = node.get("role", {}).get("value")
            if focusable and role not in ("RootWebArea", "main") and not node.get("name", {}).get("value"):
                nameless.append(role)
        self.assertEqual(nameless, [])

    def test_axe_finds_nothing(self):
        if not (self.arguments.axe and self.arguments.axe.exists()):
            self.skipTest("no axe-core")
        axe = self.arguments.axe.read_text()
        for theme, page, width in itertools.product(("light", "dark"), ("report.html", "pair.html", "views.html", "charts.html"), (1280, 390)):
            self.browser.prefer(theme)
            self.browser.resize(width, 844)
            if page == "charts.html":
                self.browser.open((self.samples / page).as_uri())
            else:
                self.load(page)
            if page == "views.html":
                self.js("adjust('views', true)")
            self.js("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            self.js(axe)
            found = self.js(f"axe.run({{runOnly: {json.dumps(AXE_TAGS)}}}).then(({{violations}}) => violations.map("
                            "({id, nodes}) => `${id}: ${nodes.map(each => each.html).join(' ')}`))")
            self.assertEqual(found, [], f"{page}, {theme}, {width}")
            self.assertEqual(self.js("document.documentElement.scrollWidth"), width, page)


class TwoModels(BrowserTest):
    def setUp(self):
        super().setUp()
        self.load("pair.html")

    def test_choices_are_shared_and_each_has_its_nearest_map(self):
        captions = "[0, 1].map(j => pane(j).querySelector('.caption').textContent)"
        one, other = self.js(captions)
        self.assertTrue(one.startswith("first \u00b7 otter (93.1"), one)
        self.assertTrue(other.startswith("second <model> \u00b7 otter (20.0"), other)
        before = self.js("[digest(0), digest(1)]")
        self.js("setLayer(0)")
        one, other = self.js(captions)
        self.assertIn("layer 9", one)
        self.assertIn("layer 10", other)  # the nearest that it has
        after = self.js("[digest(0), digest(1)]")
        self.assertTrue(all(a != b for a, b in zip(before, after)))
        self.js("setSplit(0.5, 1)")
        self.assertEqual(self.js("[0, 1].map(j => pane(j).querySelector('.split').value)"), ["0.5", "0.5"])
        self.assertEqual(self.js("[...part(0).querySelectorAll('h3')].map(each => each.textContent)"),
                         ["first", "second <model>"])
        self.keep_screenshot("pair")

    def test_pointers_and_rectangles_are_linked(self):
        self.js("surface(1).scrollIntoView({block: 'center'})")
        box = self.js("box(1)")
        self.browser.move_mouse(box["left"] + 0.5 * box["width"], box["top"] + 0.5 * box["height"])
        self.assertTrue(self.js("readout(1)").startswith("row 3, column 3: "), self.js("readout(1)"))
        self.assertTrue(self.js("readout(0)").startswith("row 7, column 7: "), self.js("readout(0)"))
        self.browser.drag((box["left"] + 0.3 * box["width"], box["top"] + 0.3 * box["height"]),
                          (box["left"] + 0.7 * box["width"], box["top"] + 0.7 * box["height"]))
        self.assertTrue(self.js("sum(1)").startswith("rows 2 to 4, columns 2 to 4: "), self.js("sum(1)"))
        self.assertRegex(self.js("sum(0)"), "^rows 4 to 9, columns ")
        # By keys, from one to the other.
        self.js("surface(0).focus()")
        self.browser.press("ArrowLeft")
        cell = self.js("readout(0)")
        self.js("surface(1).focus()")
        self.assertNotIn("Point at", self.js("readout(0)"))
        self.assertEqual(self.js("readout(0)"), cell)

    def test_both_are_saved_side_by_side(self):
        data = self.download("document.getElementById('save-picture').click()",
                             "one.jpg.hydra.layer11.head-mean.class360.png")
        self.assertEqual(struct.unpack(">II", data[16:24]), (960, 386))


class ZoomViews(BrowserTest):
    BOX = "form.elements.views"
    SEEN = "['.view-frames', '.view-list'].map(each => pane().querySelector(each).checkVisibility())"

    def setUp(self):
        super().setUp()
        self.load("views.html")
        views = json.loads((self.samples / "views.json").read_text())
        self.views = sorted(views, key=lambda view: -view["weight"])

    def show(self):
        self.js(f"{self.BOX}.focus()")
        self.browser.press(" ")

    def frames(self):
        """[left, top, width, height, thickness of the line, opacity], edges as shares of the picture's."""
        return self.js("(() => { const whole = surface().getBoundingClientRect();"
                       "return [...pane().querySelectorAll('.view-frames .box')].map(each => { const at = each.getBoundingClientRect();"
                       "const {borderTopWidth, opacity} = getComputedStyle(each);"
                       "return [(at.left - whole.left) / whole.width, (at.top - whole.top) / whole.height, at.width / whole.width,"
                       "at.height / whole.height, parseFloat(borderTopWidth), Number(opacity)]; }); })()")

    def test_each_view_of_the_record_has_a_frame_in_its_place(self):
        self.assertEqual(self.js(f"[{self.BOX}.checkVisibility(), {self.BOX}.checked]"), [True, False])
        self.assertEqual(self.js(f"{self.BOX}.labels[0].textContent"), "views")
        self.assertEqual(self.js(self.SEEN), [False, False])
        self.show()
        self.assertEqual(self.js(self.SEEN), [True, True])
        frames = self.frames()[::-1]  # the weightiest lies uppermost
        self.assertEqual(len(frames), len(self.views))
        for view, frame in zip(self.views, frames):
            box = view["box"]
            places = (box["left"] / 960, box["top"] / 720, box["width"] / 960, box["height"] / 720)
            for found, wanted in zip(frame, places):
                self.assertAlmostEqual(found, wanted, delta=0.002)
        for stronger, weaker in zip(frames, frames[1:]):
            self.assertGreater(stronger[4], weaker[4])
            self.assertGreater(stronger[5], weaker[5])
        self.assertEqual(self.js("pane().querySelectorAll('.stage > .box').length"), 0, "a class has no frame")
        self.keep_screenshot("views")
        self.browser.press(" ")
        self.assertEqual(self.js(self.SEEN), [False, False])

    def test_a_class_has_a_cross_and_its_text_inside_of_the_picture(self):
        whole = self.js("box()")
        middles = self.js("[...pane().querySelectorAll('.cross')].map(each => each.getBoundingClientRect())"
                          ".map(({left, top, width, height}) => [left + width / 2, top + height / 2])")
        for (x, y), (left, top) in zip(middles, ((948, 714), (432, 216))):  # the first class lies uppermost
            self.assertAlmostEqual((x - whole["left"]) / whole["width"], left / 960, delta=0.002)
            self.assertAlmostEqual((y - whole["top"]) / whole["height"], top / 720, delta=0.002)
        texts = "[...pane().querySelectorAll('.at-cross')]"
        self.assertEqual(self.js(f"{texts}.map(each => each.textContent)"), ["weasel (3.0\u00a0%)", "otter (93.1\u00a0%)"])
        self.assertTrue(self.js(f"{texts}.map(each => each.getBoundingClientRect()).every(({{left, top, right, bottom}}) =>"
                                f"left > {whole['left']} && top > {whole['top']} && right < {whole['left'] + whole['width']} &&"
                                f"bottom < {whole['top'] + whole['height']})"))
        self.js(f"{texts}[0].click()")
        self.assertIn("weasel", self.js("pane().querySelector('.caption').textContent"))

    def test_the_list_says_what_a_view_saw_and_marks_its_frame(self):
        self.show()
        self.assertIn("4 views of the picture, found by a model that finds: ", self.js("pane().querySelector('.view-list p').textContent"))
        rows = self.js("[...pane().querySelectorAll('.view-list button')].map(each => [...each.querySelectorAll('.label, .value, .beside')]"
                       ".map(part => part.textContent.replaceAll('\\u00a0', ' ')))")
        self.assertEqual(rows, [["otter", "75.0 %", "224x224+320+100, weight 50.0 %"], ["otter", "25.0 %", "160x160+400+150, weight 37.5 %"],
                                ["weasel", "50.0 %", "720x720+240+0, weight 12.5 %"], ["tench", "6.3 %", "960x720+0+0, weight 0.0 %"]])
        chosen = "[...pane().querySelectorAll('.view-frames .box')].filter(each => each.querySelector('span').checkVisibility()).map(each => each.textContent)"
        self.assertEqual(self.js(chosen), [])
        pressed = "[...pane().querySelectorAll('.view-list button')].map(each => each.ariaPressed)"
        self.js("pane().querySelectorAll('.view-list button')[2].focus()")
        self.browser.press("Enter")
        self.assertEqual(self.js(pressed), ["false", "false", "true", "false"])
        self.assertEqual(self.js(chosen), ["weasel (50.0\u00a0%)"])
        self.browser.press("Enter")
        self.assertEqual(self.js(pressed), ["false"] * 4)
        self.assertEqual(self.js(chosen), [])

    def test_the_choice_goes_along_from_picture_to_picture(self):
        self.show()
        self.go(1)
        self.assertEqual(self.js(self.SEEN), [False, False])
        self.assertFalse(self.js(f"{self.BOX}.checkVisibility()"), "this picture was seen once")
        self.go(0)
        self.assertEqual(self.js(self.SEEN), [True, True])

    def test_the_saved_picture_has_the_frames_and_marks(self):
        saved = []
        for _ in range(2):
            data = self.download("document.getElementById('save-picture').click()", "views.jpg.hydra.layer11.head-mean.class360.png")
            # The edge of the surest view, the cross of the first class, and a place without a frame, on 800 of 960 pixels.
            saved.append(self.js("(async () => { const image = new Image();"
                                 f"image.src = 'data:image/png;base64,{base64.b64encode(data).decode()}'; await image.decode();"
                                 "const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;"
                                 "const context = canvas.getContext('2d', {willReadFrequently: true}); context.drawImage(image, 0, 0);"
                                 "return [[320, 110], [432, 216], [600, 600]].map(place => place.map(each => Math.round(each * 800 / 960)))"
                                 ".map(([x, y]) => [...context.getImageData(x, y, 1, 1).data.slice(0, 3)]); })()"))
            self.show()
        (hidden, cross, plain), (view, same_cross, same_plain) = saved
        self.assertNotEqual(hidden, [255] * 3)
        self.assertEqual(view, [255] * 3)
        self.assertEqual([cross, same_cross], [[255] * 3] * 2)
        self.assertEqual(plain, same_plain)
