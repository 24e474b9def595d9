"""Models of timm in the Python package: their sizes and transforms, files that go both ways, what is refused.

    python tests/app/python/package_timm_test.py [--tree BUILD_FOLDER]

As package_test.py.
"""

import functools
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from under_test import EXACT, OTTER, PIL, rest, timm  # first: sets the path

import hydrascope
import numpy as np
import torch
from hydrascope import nn
from safetensors.torch import save_file


@unittest.skipIf(timm is None, "no timm")
class ModelsOfTimm(unittest.TestCase):
    def model(self, name: str = "vit_tiny_patch16_224", **options: object) -> torch.nn.Module:
        torch.manual_seed(1)
        return timm.create_model(name, **options).eval()

    def test_the_size_is_the_models(self) -> None:
        for name, (height, width) in (("vit_tiny_patch16_224", (96, 96)), ("vit_tiny_patch16_224", (64, 128)),
                                      ("vit_small_patch16_rope_224", (96, 96))):
            model = self.model(name, img_size=(height, width), num_classes=7, depth=2)
            pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
            answer = hydrascope.classify(pixels, model=model, crop_pct=1.0, **EXACT)
            self.assertEqual(answer.record["model_size"], [height, width])
            mean, std = (torch.tensor(model.pretrained_cfg[key])[:, None, None] for key in ("mean", "std"))
            with torch.no_grad():
                expected = model((torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255 - mean) / std)[0]
            np.testing.assert_allclose(answer.logits, expected.numpy(), atol=1e-4)

    def assert_comes_back(self, model: torch.nn.Module, *, channels: int = 3) -> str:
        """Through a file and `load`: the same weights, answers and transform, which is returned."""
        with tempfile.TemporaryDirectory() as folder:
            file, again = Path(folder) / "a.safetensors", Path(folder) / "b.safetensors"
            nn.save(model, file)
            back = nn.load(file).eval()
            nn.save(back, again)
            with hydrascope.Model(file, **EXACT) as first, hydrascope.Model(again, **EXACT) as second:
                answer = first.classify(OTTER)
                np.testing.assert_array_equal(second.classify(OTTER).logits, answer.logits)
                self.assertEqual(second.facts["transform"], first.facts["transform"])
                self.assertEqual(second.classify(OTTER).top, answer.top)
            self.assertEqual(file.stat().st_mode & 0o777, 0o644)
            # Timm's reading of the picture, and of the model.
            image = PIL.Image.open(OTTER).convert("L" if channels == 1 else "RGB")
            transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=back))
            with torch.no_grad():
                expected = back(transform(image)[None])[0].numpy()
            np.testing.assert_allclose(answer.logits, expected, atol=0.1)  # Pillow's JPEG may differ in the last bits
            return first.facts["transform"]

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_a_transform_goes_both_ways(self) -> None:
        previous = os.umask(0o022)
        self.addCleanup(os.umask, previous)
        clip = {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)}
        for change, text in (({}, "resize 248 (bicubic"), ({"crop_pct": 0.95}, "resize 235"), ({"crop_pct": 1.0}, "resize 224"),
                             ({"interpolation": "bilinear"}, "bilinear"), ({"crop_mode": "squash", "crop_pct": 1.0}, "224x224"),
                             (clip, "0.481"), ({"test_input_size": (3, 288, 288), "test_crop_pct": 1.0}, "resize 248")):
            with self.subTest(change):
                model = self.model(depth=2)
                model.pretrained_cfg = {**model.pretrained_cfg, **change}
                self.assertIn(text, self.assert_comes_back(model))

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_bundled_models_go_both_ways(self) -> None:
        previous = os.umask(0o022)
        self.addCleanup(os.umask, previous)
        for name in ("softmax", "hydra_last2", "hedgehog", "window"):
            with self.subTest(name):
                name = f"deit_tiny_patch16_224.{name}"
                model = nn.load(name).eval()
                transform = self.assert_comes_back(model)
                with hydrascope.Model(name, **EXACT) as bundled, hydrascope.Model(model, **EXACT) as instance:
                    self.assertEqual((transform, instance.facts["transform"]), (bundled.facts["transform"],) * 2)
                    answer = bundled.classify(OTTER)
                    np.testing.assert_array_equal(instance.classify(OTTER).logits, answer.logits)
                    self.assertEqual(instance.classify(OTTER).top, answer.top)
        file = self.enterContext(tempfile.TemporaryDirectory()) + "/m.safetensors"
        nn.save(nn.load("deit_tiny_patch16_224.window"), file)
        large = {"native": True, **EXACT}
        np.testing.assert_array_equal(hydrascope.classify(OTTER, model=file, **large).logits,
                                      hydrascope.classify(OTTER, model="deit_tiny_patch16_224.window", **large).logits)
        with self.assertRaisesRegex(hydrascope.NotFoundError, "no bundled model of that name"):
            nn.load("deit_tiny_patch16_224.softmac")

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_what_the_names_of_tensors_do_not_say_goes_both_ways(self) -> None:
        previous = os.umask(0o022)
        self.addCleanup(os.umask, previous)
        for options in ({"global_pool": "avg", "fc_norm": False}, {"global_pool": "avg"}, {"reg_tokens": 4, "init_values": 1e-3},
                        {"class_token": False, "global_pool": "avg"}, {"no_embed_class": True, "num_classes": 7}, {"qkv_bias": False}):
            with self.subTest(options):
                self.assert_comes_back(self.model(depth=2, **options))
        model = self.model(depth=2, global_pool="avg", fc_norm=False)
        with tempfile.TemporaryDirectory() as folder:
            nn.save(model, Path(folder) / "m.safetensors")
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "global_pool avg, not token"):
                nn.load(Path(folder) / "m.safetensors", self.model(depth=2))

    def test_names_of_classes_go_along(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "m.safetensors"
            model = self.model(depth=2, num_classes=3)
            model.pretrained_cfg = {**model.pretrained_cfg, "label_names": ["a", "b", "c"], "label_descriptions": {"b": "bee"}}
            for _ in range(2):
                nn.save(model, file)
                with hydrascope.Model(file, **EXACT) as opened:
                    self.assertEqual([opened.label(one) for one in range(3)], ["a", "b bee", "c"])
                model = nn.load(file)
            model.reset_classifier(2)
            nn.save(model, file)
            with hydrascope.Model(file, **EXACT) as opened:
                self.assertNotEqual(opened.label(0), "a")

    def test_a_folder_of_timms(self) -> None:
        from timm.models import save_for_hf
        model = self.model(depth=2, num_classes=3)
        model.pretrained_cfg = {**model.pretrained_cfg, "crop_pct": 0.8, "mean": (0.1, 0.2, 0.3)}
        with tempfile.TemporaryDirectory() as folder:
            save_for_hf(model, folder, safe_serialization=True)
            back = nn.load(folder)
            self.assertTrue(torch.equal(back.pos_embed, model.pos_embed))
            into = nn.load(folder, self.model(depth=2, num_classes=3))
            for one in (back, into):
                self.assertEqual((one.pretrained_cfg["crop_pct"], tuple(one.pretrained_cfg["mean"])), (0.8, (0.1, 0.2, 0.3)))
            with hydrascope.Model(folder, **EXACT) as of_folder, hydrascope.Model(back, **EXACT) as instance:
                self.assertEqual(of_folder.facts["transform"], instance.facts["transform"])
                np.testing.assert_array_equal(of_folder.classify(OTTER).logits, instance.classify(OTTER).logits)

    def test_what_is_no_file_is_not_replaced(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder) / "pipe"
            os.mkfifo(pipe)
            read: list[bytes] = []
            reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
            reader.start()
            nn.save(self.model(depth=1), pipe)
            reader.join(60)
            self.assertTrue(pipe.is_fifo())
            self.assertGreater(len(read[0]), 1000)
            link, target = Path(folder) / "link.safetensors", Path(folder) / "target.safetensors"
            link.symlink_to(target)
            nn.save(self.model(depth=1), link)
            self.assertTrue(link.is_symlink() and target.is_file())
            self.assertEqual(sorted(os.listdir(folder)), ["link.safetensors", "pipe", "target.safetensors"])

    def test_other_transformers_are_refused_and_left_alone(self) -> None:
        from timm.models.beit import Beit
        small = {"depth": 2, "embed_dim": 24, "num_heads": 2}
        given = [self.model(name) for name in ("eva02_tiny_patch14_224", "cait_xxs24_224", "vit_small_patch16_rope_224",
                                               "crossvit_tiny_240", "xcit_nano_12_p16_224", "vit_relpos_small_patch16_224")]
        given += [Beit(**small), self.model("hiera_tiny_224"), self.model("vit_tiny_patch16_224", qk_norm=True)]
        for model in given:
            with self.subTest(type(model).__name__):
                before = [type(one) for one in model.modules()]
                with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "found|cannot be replaced"):
                    nn.replace_attention(model, "hydra:last1,hedgehog:0")
                self.assertEqual([type(one) for one in model.modules()], before)
        half = self.model(depth=2)
        half.blocks[1].attn.q_norm = torch.nn.LayerNorm(64)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "q_norm"):
            nn.replace_attention(half, "hydra")
        self.assertEqual(type(half.blocks[0].attn).__name__, "Attention")

    def test_values_of_mechanisms_options(self) -> None:
        for option in ("hydra.eps=abc", "hydra.eps=0", "hydra.eps=nan", "exp.t=-1", "hedgehog.width=-1", "t2r.width=1.5"):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, f"{option.partition('=')[0]} expects a"):
                nn.replace_attention(self.model(depth=2), option.partition(".")[0], attn_opt=option)

    def test_without_a_classifier(self) -> None:
        model = self.model(num_classes=0, depth=2)
        pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
        with torch.no_grad():
            expected = model((torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255 - 0.5) / 0.5)[0]
        np.testing.assert_allclose(hydrascope.embed(pixels, model=model, crop_pct=1.0, **EXACT), expected.numpy(), atol=1e-4)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no classifier"):
            hydrascope.classify(pixels, model=model)
        with hydrascope.Model(model, embeddings=True, **EXACT) as opened, \
                self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no classifier"):
            opened.classify(pixels)
        with tempfile.TemporaryDirectory() as folder:
            nn.save(model, Path(folder) / "m.safetensors")
            options = {"model": Path(folder) / "m.safetensors", "crop_pct": 1.0, **EXACT}
            np.testing.assert_allclose(hydrascope.embed(pixels, **options), expected.numpy(), atol=1e-4)
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no classifier"):
                hydrascope.classify(pixels, **options)
            vectors = torch.stack([2 * expected, -expected]).contiguous()
            save_file({"vectors": vectors}, Path(folder) / "c.safetensors", {"names": '["same", "other"]', "logit_scale": "10"})
            with hydrascope.Model(classes=Path(folder) / "c.safetensors", embeddings=True, **options) as opened:
                self.assertEqual(opened.facts["num_classes"], 2)
                answer = opened.classify(pixels)
                self.assertEqual(answer.top[0].label, "same")
                np.testing.assert_allclose(answer.logits, [10, -10], atol=1e-3)
                np.testing.assert_allclose(opened.embed(pixels), expected.numpy(), atol=1e-4)
            back = nn.load(Path(folder) / "m.safetensors", self.model(num_classes=0, depth=2))
            self.assertEqual((back.num_classes, type(back.head)), (0, torch.nn.Identity))
            self.assertTrue(torch.equal(back.pos_embed, model.pos_embed))

    def test_a_state_dict_that_does_not_fit(self) -> None:
        state = self.model(depth=2).state_dict()
        with self.assertRaisesRegex(hydrascope.Error, "does not fit vit_tiny_patch16_224; .*blocks.2.norm1"):
            hydrascope.Model(state, arch="vit_tiny_patch16_224")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no such architecture .zzz"):
            hydrascope.Model(state, arch="zzz")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "found dict"):
            hydrascope.Model({}, arch="vit_tiny_patch16_224")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(hydrascope.Error, "does not fit vit_tiny_patch16_224"):
                hydrascope.convert(state, Path(folder) / "o.safetensors", arch="vit_tiny_patch16_224")

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_what_only_an_architectures_name_says_is_as_timm_makes_it(self) -> None:
        for name, options in (("vit_tiny_patch16_224", {"global_pool": "max"}), ("vit_small_patch16_rope_224", {"global_pool": "max"}),
                              ("vit_small_patch16_rope_224", {"norm_layer": functools.partial(torch.nn.LayerNorm, eps=1e-3)}),
                              ("vit_relpos_small_patch16_224", {"act_layer": torch.nn.ReLU})):
            with self.subTest(name, options=options), \
                    self.assertRaisesRegex(hydrascope.InvalidArgumentError, "no such transformer: "):
                hydrascope.Model(self.model(name, num_classes=7, **options))
        for name in ("vit_small_patch16_rope_224", "vit_relpos_small_patch16_224"):
            self.assert_comes_back(self.model(name, num_classes=7))

    def test_one_block_does_not_stand_for_all(self) -> None:
        def of_block(name: str, value: object) -> torch.nn.Module:
            model = self.model(depth=2)
            place, _, last = name.rpartition(".")
            setattr(model.get_submodule(place), last, value)
            return model

        for name, value in (("blocks.1.mlp.act", torch.nn.GELU(approximate="tanh")), ("blocks.1.attn.num_heads", 6),
                            ("blocks.1.norm2.eps", 1e-3), ("norm.eps", 1e-3), ("blocks.1.drop_path2", torch.nn.Tanh()),
                            ("blocks.0.attn.attn_drop", torch.nn.Tanh()), ("head_drop", torch.nn.Tanh()),
                            ("blocks.1.attn.qkv.bias", None), ("blocks.1.norm1", torch.nn.RMSNorm(192))):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, \
                    self.assertRaisesRegex(hydrascope.InvalidArgumentError, f"no such transformer: {name.removesuffix('.num_heads').removesuffix('.eps').removesuffix('.bias')} is"):
                nn.save(of_block(name, value), Path(folder) / "m.safetensors")
        turned = self.model("vit_small_patch16_rope_224", num_classes=7, depth=2)
        turned.blocks[1].norm1.eps = 1e-3
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(hydrascope.InvalidArgumentError, "blocks.1.norm1 is"):
            nn.save(turned, Path(folder) / "m.safetensors")

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_a_model_of_every_size_has_that_of_its_configuration(self) -> None:
        model = self.model(depth=2, dynamic_img_size=True)
        model.pretrained_cfg = {**model.pretrained_cfg, "input_size": (3, 96, 96)}
        self.assertIn("96x96", self.assert_comes_back(model))

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_grey(self) -> None:
        self.assertIn("grey", self.assert_comes_back(self.model(in_chans=1, num_classes=7, depth=2), channels=1))

    def test_files_of_modules(self) -> None:
        model = self.model(depth=2)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(hydrascope.UnwritableError, "no such folder") as caught:
                nn.save(model, Path(folder) / "missing" / "m.safetensors")
            self.assertIsInstance(caught.exception, OSError)
            file = Path(folder) / "m.safetensors"
            file.write_bytes(b"x" * 100)
            with self.assertRaisesRegex(hydrascope.UnsupportedFormatError, "safetensors"):
                nn.load(file)
            for one in (model, model.state_dict()):
                with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "would replace"):
                    nn.save(one, file)
                self.assertEqual(file.read_bytes(), b"x" * 100)
            file.unlink()
            nn.save(model.state_dict(), file)
            nn.save(model, file)  # over what it wrote itself
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "does not fit"):
                nn.load(file, self.model(depth=3))
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "ReLU"):
            hydrascope.Model(self.model(depth=2, act_layer="relu"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *rest])
