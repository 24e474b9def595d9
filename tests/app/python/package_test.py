"""The Python package: classes, maps, embeddings, conversion, modules, errors.

    python tests/app/python/package_test.py [--tree BUILD_FOLDER]

Tests the installed package, or with --tree the one of this checkout with the library of a build. Exits with 77 (CTest:
skipped) where this Python lacks NumPy or the PyTorch that LibTorch is. What needs timm is skipped without it.
"""

import json
import io
import pickle
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from under_test import EXACT, OTTER, PIL, ROOT, WORDS, command, record, rest, timeless, timm  # first: sets the path

import hydrascope
import numpy as np
import safetensors.torch
import torch
from hydrascope import _library, nn

MODEL = "deit_tiny_patch16_224.softmax"


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.model = hydrascope.Model(**EXACT)
        cls.addClassCleanup(cls.model.close)

    def test_a_path_is_what_the_program_says(self) -> None:
        answer = self.model.classify(OTTER)
        self.assertEqual(timeless(answer.record), timeless(record("classify", *WORDS, OTTER)))
        self.assertEqual((answer.label, answer.probability), (answer.top[0].label, answer.top[0].probability))
        self.assertEqual(answer.logits.shape, (self.model.facts["num_classes"],))

    def test_zoom_says_where_the_class_is(self) -> None:
        picture = ROOT / "assets/images/oakland-zoo-otters.jpg"
        with hydrascope.Model(views="zoom", **EXACT) as model:
            answer = model.classify(picture)
        said = record("classify", *WORDS, "--views", "zoom", picture)
        self.assertEqual(timeless(answer.record), timeless(said))
        self.assertTrue(any("box" in one for one in said["top"]))
        for one, wanted in zip(answer.top, said["top"], strict=True):
            box, mark = wanted.get("box"), wanted.get("mark")
            self.assertEqual(one.box, box and tuple(box[edge] for edge in ("left", "top", "width", "height")))
            self.assertEqual(one.mark, mark and (mark["x"], mark["y"]))

    def test_every_form_of_a_picture_is_the_same(self) -> None:
        expected = self.model.classify(OTTER).logits
        forms = {"bytes": OTTER.read_bytes(), "bytearray": bytearray(OTTER.read_bytes()), "str": str(OTTER)}
        if PIL:
            image = PIL.Image.open(OTTER)
            array = np.asarray(image)
            wide = np.zeros((array.shape[0], array.shape[1] + 7, 3), np.uint8)
            wide[:, :-7] = array
            forms |= {"PIL": image, "array": array, "rows with gaps": wide[:, :-7],
                      "upside down twice": np.ascontiguousarray(array[::-1])[::-1], "tensor HWC": torch.from_numpy(array.copy()),
                      "tensor CHW": torch.from_numpy(array.copy()).permute(2, 0, 1)}
        for name, form in forms.items():
            with self.subTest(name):
                # Pillow's decoder of JPEG may differ in the last bits.
                np.testing.assert_allclose(self.model.classify(form).logits, expected, atol=0.1 if name not in (
                    "bytes", "bytearray", "str") else 0)

    def test_several_and_grey(self) -> None:
        grey = np.tile(np.arange(64, dtype=np.uint8), (48, 1))
        answers = self.model.classify([grey, np.repeat(grey[:, :, None], 3, 2), OTTER], topk=2)
        np.testing.assert_array_equal(answers[0].logits, answers[1].logits)
        self.assertEqual([len(one.top) for one in answers], [2, 2, 2])
        self.assertEqual(self.model.classify([]), [])

    def test_errors(self) -> None:
        broken = OTTER.read_bytes()[:3000]
        with self.assertRaises(hydrascope.DecodeError) as caught:
            self.model.classify(broken)
        self.assertIsInstance(caught.exception, ValueError)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "broken.jpg"
            file.write_bytes(broken)
            done = command("classify", *WORDS, file)
            text = str(caught.exception).removesuffix(" (picture 0)")
            self.assertIn(text, done.stdout)
        with self.assertRaisesRegex(FileNotFoundError, "no such file"):
            self.model.classify("/nonexistent.jpg")
        answers = self.model.classify([broken, OTTER, b""], on_error="skip")
        self.assertEqual([type(one.error) for one in answers],
                         [hydrascope.DecodeError, type(None), hydrascope.EmptyError])
        for wrong in (np.zeros((4, 4, 3)), np.zeros((4, 4, 5), np.uint8), np.zeros((0, 4, 3), np.uint8), 7):
            with self.assertRaises(hydrascope.InvalidArgumentError):
                self.model.classify([wrong])
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "did you mean hydra"):
            hydrascope.Model(attn="hydrra")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, r"found 'x' \(img_size\)") as caught:
            hydrascope.Model(img_size="x")
        self.assertEqual(caught.exception.field, "img_size")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "unknown option img_sise"):
            hydrascope.classify(OTTER, img_sise=3)
        for wrong, meant in (("top_k", "topk"), ("onerror", "on_error")):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, f"unknown option {wrong}\nhint: did you mean {meant}"):
                hydrascope.classify(OTTER, **{wrong: 3})
        with self.assertRaisesRegex(hydrascope.NotFoundError, "did you mean deit_tiny_patch16_224.window"):
            hydrascope.Model("window")
        with self.assertRaisesRegex(hydrascope.TooLargeError, "above the limit of 100 pixels"):
            hydrascope.classify(OTTER, max_pixels=100)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "without maps"):
            self.model.explain(OTTER)
        closed = hydrascope.Model(**EXACT)
        closed.close()
        closed.close()
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "closed"):
            closed.classify(OTTER)

    def test_threads_share_a_model(self) -> None:
        expected = self.model.classify(OTTER).logits
        wrong: list[int] = []

        def ask() -> None:
            for _ in range(5):
                if not np.allclose(self.model.classify(OTTER).logits, expected, atol=1e-3):
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(wrong, [])

    def test_what_is_pytorchs_stays(self) -> None:
        torch.manual_seed(5)
        expected = torch.rand(3)
        threads = torch.get_num_threads()
        torch.manual_seed(5)
        hydrascope.Model(attn="hydra", threads=1, maps=True, **EXACT).close()
        self.assertTrue(torch.equal(torch.rand(3), expected))
        self.assertEqual(torch.get_num_threads(), threads)


class Explanations(unittest.TestCase):
    def test_maps_are_those_of_save_raw(self) -> None:
        options = {"layer": [10, 11], "views": "whole", **EXACT}
        answer = hydrascope.explain(OTTER, classes=["otter"], topk=1, **options)
        with tempfile.TemporaryDirectory() as folder:
            for one in answer.maps[:2]:
                done = command("visualize", *WORDS, "--layer", one.layer, "--class", one.class_index, "--save-raw", "-o", folder,
                               "--views", "whole", OTTER)
                self.assertEqual(done.returncode, 0, done.stderr)
                raw = np.load(Path(folder) / "otter-head.map.npy")
                np.testing.assert_allclose(one.values, raw, rtol=1e-5, atol=1e-6)
        one = answer.maps[0]
        self.assertEqual((one.method, one.head, one.record["grid"]), ("hydra", "mean", list(one.values.shape)))
        self.assertNotIn("files", one.record)
        width, height = answer.record["width"], answer.record["height"]
        left, top, across, down = one.box
        # The crop begins at a whole pixel of the resized picture.
        self.assertAlmostEqual(left + across / 2, width / 2, delta=0.01 * width)
        self.assertAlmostEqual(top + down / 2, height / 2, delta=0.01 * height)
        self.assertAlmostEqual(across, down, delta=0.01 * width)

    def test_some_of_the_maps(self) -> None:
        with hydrascope.Model(layer="all", **EXACT) as model:
            answer = model.explain(OTTER, layer=3, topk=2)
            self.assertEqual([(one.layer, one.class_index) for one in answer.maps],
                             [(3, answer.top[0].index), (3, answer.top[1].index)])
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "other maps"):
                model.explain(OTTER, head=0)

    def test_embeddings(self) -> None:
        one = hydrascope.embed(OTTER, **EXACT)
        several = hydrascope.embed([OTTER, OTTER], **EXACT)
        self.assertEqual((one.shape, several.shape), ((192,), (2, 192)))
        np.testing.assert_allclose(several[1], one, atol=1e-5)

    def test_embeddings_are_the_command_lines(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, size in (("large", None), ("small", (320, 240))):
                picture = OTTER
                if size:
                    picture = Path(folder) / "small.png"
                    PIL.Image.open(OTTER).resize(size).save(picture)
                done = command("embed", picture, "-o", f"{folder}/{name}.safetensors", "--precision", "float32")
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_allclose(hydrascope.embed(picture, precision="float32"),
                                           vectors(f"{folder}/{name}.safetensors")[0], atol=1e-4, err_msg=name)


def vectors(store: str) -> np.ndarray:
    """The vectors (pictures, D) of a store."""
    data = Path(store).read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])["vectors"]
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).reshape(entry["shape"])


class Drawing(unittest.TestCase):
    def drawn(self, *words: object) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            done = command("visualize", *WORDS, "-m", MODEL, *words, "-o", folder, OTTER)
            self.assertEqual(done.returncode, 0, done.stderr)
            return np.asarray(PIL.Image.open(Path(folder) / "otter-head.heatmap.png"))

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_the_drawing_is_the_command_lines(self) -> None:
        with hydrascope.Model(MODEL, layer=[10, 11], **EXACT) as model:
            answer = model.explain(OTTER)
            one = answer.maps[1].draw()
            np.testing.assert_array_equal(one, self.drawn())
            np.testing.assert_array_equal(answer.draw(cmap="turbo", beside=True), self.drawn("--layer", "10,11", "--cmap", "turbo", "--beside"))
            self.assertEqual(model.classify(OTTER).draw().size, one.size)
            of_bytes = model.explain(OTTER.read_bytes())
            np.testing.assert_array_equal(of_bytes.maps[1].draw(), one)
            _, among = model.explain([OTTER, OTTER.read_bytes()])
            np.testing.assert_array_equal(among.maps[1].draw(OTTER), one)
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "does not hold its picture"):
                among.draw()
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "expected the picture that was asked about, 960x1707"):
                answer.draw(np.zeros((8, 8, 3), np.uint8))
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "did you mean caption"):
                answer.draw(captoin=True)
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "cannot be drawn"):
                pickle.loads(pickle.dumps(answer)).draw()

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_notebooks_show_pictures(self) -> None:
        with hydrascope.Model(MODEL, maps=True, **EXACT) as model:
            answer = model.explain(OTTER)
            self.assertRegex(repr(answer), r"^<Answer: otter 9\d\.\d%, .*; 1 map>$")
            self.assertRegex(repr(answer.maps[0]), r"^<Map of otter 9\d\.\d%, hydra, layer 11, 14x14>$")
            for one in (answer, answer.maps[0], model.classify(OTTER)):
                shown = PIL.Image.open(io.BytesIO(one._repr_png_()))
                self.assertEqual(max(shown.size), 960)
                self.assertIn("data:image/jpeg;base64,", one._repr_html_())
            self.assertIn("<td>otter<td>", answer._repr_html_())
            _, among = model.explain([OTTER, OTTER.read_bytes()])
            self.assertIsNone(among._repr_png_())
            self.assertNotIn("<img", among._repr_html_())
            failed, = model.classify(["/nonexistent"], on_error="skip")
            self.assertIn("no such file", repr(failed) + failed._repr_html_())

    def test_samples(self) -> None:
        self.assertEqual(hydrascope.samples()["otter-head"].name, "otter-head.jpg")
        self.assertEqual(len(hydrascope.samples()), 5)


class Modules(unittest.TestCase):
    def test_each_is_the_operators_equation(self) -> None:
        torch.manual_seed(0)
        x = torch.randn(2, 197, 24)
        for name in sorted(one["mechanism"] for one in _library.registry()["mechanisms"]):
            with self.subTest(name):
                module = nn.Attention(24, 3, mechanism=name)
                torch.manual_seed(3)
                following = torch.rand(1)
                torch.manual_seed(3)
                y = module(x)
                torch.testing.assert_close(torch.rand(1), following)
                with torch.no_grad():
                    torch.testing.assert_close(module(x), y, rtol=1e-4, atol=1e-4)
                y.square().sum().backward()
                for of, parameter in module.named_parameters():
                    if parameter.grad is None:  # used at sizes of more tokens, or windows
                        self.assertRegex(of, "prefix_rows|sort")
                    else:
                        self.assertTrue(torch.isfinite(parameter.grad).all(), of)
        q, k, v = nn.LinearAttention(24, 3).qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        phi = torch.nn.functional.elu
        weights = (phi(q) + 1) @ (phi(k) + 1).transpose(-1, -2)
        expected = weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)
        torch.testing.assert_close(nn.LinearAttention(24, 3).mix(q, k, v), expected.transpose(1, 2).flatten(2), rtol=1e-4, atol=1e-5)

    def test_gradients_are_those_of_the_equation(self) -> None:
        torch.manual_seed(0)
        module = nn.HedgehogAttention(24, 3, training_grid=(1, 2, 3), variant="softmax2")
        x = torch.randn(2, 7, 24, requires_grad=True)
        weights = [module.feature_map.q.weight, module.feature_map.k.weight]

        def equation() -> torch.Tensor:
            q, k, v = module.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
            q, k = (torch.cat([(one @ w).softmax(-1), (-(one @ w)).softmax(-1)], -1) for one, w in zip((q, k), weights))
            scores = q @ k.transpose(-1, -2)
            return module.proj((scores @ v / scores.sum(-1, keepdim=True)).transpose(1, 2).flatten(2))

        found, wanted = ([one.clone() for one in torch.autograd.grad((y * y).sum(), [x, *weights, module.qkv.weight])]
                         for y in (module(x), equation()))
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        y = module(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        with self.assertRaisesRegex(RuntimeError, "second"):
            y.backward()
        with self.assertRaisesRegex(RuntimeError, "no second derivatives"):
            torch.autograd.grad(module(x).sum(), x, create_graph=True)

    def test_places_of_tokens(self) -> None:
        x = torch.randn(1, 1 + 4 * 6, 24)
        self.assertEqual(nn.LinearAttention(24, 3)(x).shape, x.shape)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "window must know where patches lie"):
            nn.WindowAttention(24, 3)(x)
        module = nn.WindowAttention(24, 3, training_grid=(1, 2, 2))
        module.grid = (1, 4, 6)
        self.assertFalse(torch.allclose(module(x), nn.Attention(24, 3)(x)))

    def test_the_library_knows_what_the_program_knows(self) -> None:
        self.assertEqual(_library.mechanism("window")["mechanism"], "window")
        layers = _library.layers(["softmax"] * 4, attn="hydra_attention:last2", attn_opt=["hydra:3.scale=none"])
        self.assertEqual([one["mechanism"] for one in layers], ["softmax", "softmax", "hydra", "hydra"])
        self.assertEqual([one["options"]["scale"] for one in layers[2:]], ["linear", "none"])
        config = _library.config(str(ROOT / "assets" / "models" / "deit_tiny_patch16_224.hydra_last2.safetensors"))
        self.assertEqual((config["depth"], config["num_heads"], config["num_classes"]), (12, 3, 1000))
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "hydrra") as caught:
            _library.layers(["softmax"], attn="hydrra")
        self.assertEqual(caught.exception.field, "attn")

    def test_options_are_checked(self) -> None:
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "has no option 'sclae'"):
            nn.HydraAttention(24, 3, sclae="none")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "hydra.scale"):
            nn.HydraAttention(24, 3, scale="much")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no mask"):
            nn.HydraAttention(24, 3)(torch.zeros(1, 5, 24), is_causal=True)


@unittest.skipIf(timm is None, "no timm")
class Timm(unittest.TestCase):
    def model(self, **options: object) -> torch.nn.Module:
        torch.manual_seed(1)
        model = timm.create_model("vit_tiny_patch16_224", num_classes=7, depth=4, img_size=64, **options)
        for parameter in model.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
        return model.eval()

    def pixels(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)

    def logits(self, model: torch.nn.Module) -> np.ndarray:
        cfg = model.pretrained_cfg
        x = torch.from_numpy(self.pixels()).permute(2, 0, 1)[None] / 255
        with torch.no_grad():
            return model((x - torch.tensor(cfg["mean"])[:, None, None]) / torch.tensor(cfg["std"])[:, None, None])[0].numpy()

    def test_an_instance_has_the_same_logits(self) -> None:
        for options in ({}, {"global_pool": "avg", "class_token": False}, {"reg_tokens": 4, "init_values": 1e-3},
                        {"qkv_bias": False}):
            with self.subTest(options):
                model = self.model(**options)
                answer = hydrascope.classify(self.pixels(), model=model, img_size=64, crop_pct=1.0, **EXACT)
                np.testing.assert_allclose(answer.logits, self.logits(model), atol=1e-4)

    def test_an_embedding_is_timms(self) -> None:
        model = self.model()
        given = hydrascope.embed(self.pixels(), model=model, img_size=64, crop_pct=1.0, **EXACT)
        cfg = model.pretrained_cfg
        x = torch.from_numpy(self.pixels()).permute(2, 0, 1)[None] / 255
        x = (x - torch.tensor(cfg["mean"])[:, None, None]) / torch.tensor(cfg["std"])[:, None, None]
        with torch.no_grad():
            expected = model.forward_head(model.forward_features(x), pre_logits=True)[0]
        np.testing.assert_allclose(given, expected.numpy(), atol=1e-4)

    def test_a_state_dict_with_its_architecture(self) -> None:
        model = timm.create_model("vit_tiny_patch16_224", num_classes=7).eval()
        answer = hydrascope.classify(OTTER, model=model.state_dict(), arch="vit_tiny_patch16_224", **EXACT)
        np.testing.assert_allclose(answer.logits, hydrascope.classify(OTTER, model=model, **EXACT).logits, atol=1e-4)

    def test_replaced_attention_has_the_same_logits_in_the_program_and_comes_back(self) -> None:
        for attn, options in (("hydra:last2", []), ("hydra", ["hydra.feature_scale=on", "hydra.scale=patch", "hydra.phi_q=l1"]),
                              ("hedgehog:0-2", ["hedgehog.variant=softmax2"]), ("hh", ["hedgehog.share_qk=on", "hedgehog.width=32"]),
                              ("elu:every2,t2r:0", []), ("exp:last1,relu:first1", ["exp.t=0.5"]), ("nystrom", []),
                              ("window", ["window.size=2", "window.shift=alternate"]), ("hydra", ["hydra.local=window7"]),
                              ("linformer:0-1,polynl:2,performer:3", [])):
            with self.subTest(attn, options=options), tempfile.TemporaryDirectory() as folder:
                model = nn.replace_attention(self.model(), attn, attn_opt=options)
                for name, parameter in model.named_parameters():
                    if "feature" in name:
                        parameter.data += 0.1 * torch.randn_like(parameter)
                expected = self.logits(model)
                answer = hydrascope.classify(self.pixels(), model=model, img_size=64, crop_pct=1.0, **EXACT)
                np.testing.assert_allclose(answer.logits, expected, atol=1e-4)
                self.assertNotIn("newly initialised", str(answer.record))
                # Through the program, which writes the file anew, and back into timm.
                hydrascope.convert(model, Path(folder) / "m.safetensors")
                back = nn.load(Path(folder) / "m.safetensors", self.model())
                self.assertEqual(nn.attention_of(back), nn.attention_of(model))
                np.testing.assert_allclose(self.logits(back.eval()), expected, atol=1e-4)

    def test_a_bundled_model_becomes_a_timm_model(self) -> None:
        for name in ("hydra_last2", "hedgehog"):
            with self.subTest(name):
                file = next((ROOT / "assets" / "models").glob(f"*.{name}.safetensors"))
                model = nn.load(file).eval()
                answer = hydrascope.classify(OTTER, model=file, **EXACT)
                given = hydrascope.classify(OTTER, model=model, crop_pct=0.875, interpolation="bicubic",
                                            mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), **EXACT)
                np.testing.assert_allclose(given.logits, answer.logits, atol=1e-3)

    def test_training_changes_what_was_added(self) -> None:
        model = nn.replace_attention(self.model(), "hedgehog:last1").train()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        x, y = torch.randn(8, 3, 64, 64), torch.arange(8) % 7
        losses = []
        for _ in range(12):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertFalse(torch.equal(model.blocks[-1].attn.feature_map.q.weight[0], torch.eye(64)))

    def test_what_cannot_be_replaced_is_refused(self) -> None:
        for attn, text in (("hydra:last9", "4 layers"), ("hydra:4", "0 to 3"), ("hydra:x", "a layer number")):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, text):
                nn.replace_attention(self.model(), attn)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "q_norm"):
            nn.replace_attention(self.model(qk_norm=True), "hydra")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "timm"):
            nn.replace_attention(torch.nn.Linear(2, 2), "hydra")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "state dict"):
            hydrascope.Model(torch.nn.Linear(2, 2))


class Commands(unittest.TestCase):
    def test_the_module_is_the_program(self) -> None:
        done = command("version")
        self.assertRegex(done.stdout, r"^hydrascope \d")
        self.assertEqual(command("classify", "--nonsense").returncode, 2)

    def test_convert_writes_and_refuses(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "out.safetensors"
            written = hydrascope.convert(ROOT / "assets" / "models" / "deit_tiny_patch16_224.hydra_last2.safetensors", file)
            self.assertEqual(written, file)
            self.assertIn("head.weight", safetensors.torch.load_file(file))
            self.assertIn("hydra", hydrascope.run("models", "info", file))
            with self.assertRaisesRegex(hydrascope.Error, "no such file .*nonexistent"):
                hydrascope.convert("/nonexistent.pth", file)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *rest])
