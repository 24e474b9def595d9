"""Small random models of tests/corpus as others write them, and the logits that they give.

Steps of make_corpus.py, each in the environment of one writer:

    corpus_weights.py timm|torch_1|transformers CORPUS RESULTS

Logits are of the two pictures of `weights/inputs`, not resized, computed in float64; those of the second one, which is
larger than the models, with the position table stretched as the peer does. RESULTS gets rows.jsonl and answers.npz.
"""

import argparse
import datetime
import enum
import json
import sys
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import torch

INPUTS = ("inputs/square.png", "inputs/wide.png")  # 16x16 and 24x32 pixels
STATE = Path(sys.argv[3]).parent / "state.npz"  # from the step `timm` to the step `torch_1`
SIZES = {"img_size": 16, "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 5}


def randomise(model: torch.nn.Module) -> None:
    """Weights far enough from their initialisation that each of them matters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = parameter.dim() == 1 and name.endswith(("weight", "gamma"))
            parameter.copy_(0.2 * torch.randn_like(parameter) + (1.0 if is_scale else 0.0))


def tensor_of(file: Path, mean: list[float], std: list[float]) -> torch.Tensor:
    from PIL import Image

    pixels = np.asarray(Image.open(file).convert("L" if len(mean) == 1 else "RGB")).astype(np.float64) / 255
    return torch.from_numpy(((pixels.reshape(*pixels.shape[:2], -1) - mean) / std).transpose(2, 0, 1)[None])


def judged(model: torch.nn.Module, answer, pictures: list[torch.Tensor]) -> dict:
    """Logits in float64, and how far the model's own float32 is from them: the unit for a fair tolerance."""
    with torch.no_grad():
        narrow = torch.cat([answer(model.float(), picture.float()) for picture in pictures]).double()
        exact = torch.cat([answer(model.double(), picture) for picture in pictures])
    model.float()
    return {"logits": exact.tolist(), "float32_error": float(f"{(narrow - exact).abs().max().item():.3g}")}


def timm_models():
    """Name -> model, as timm's names and keywords make it."""
    import timm

    cases = {
        "vit": {}, "distilled": {}, "registers": {"reg_tokens": 3, "init_values": 1e-5, "no_embed_class": True},
        "average": {"global_pool": "avg", "class_token": False, "qkv_bias": False}, "grey": {"in_chans": 1},
    }
    for name, more in cases.items():
        architecture = "deit_tiny_distilled_patch16_224" if name == "distilled" else "vit_tiny_patch16_224"
        model = timm.create_model(architecture, dynamic_img_size=True, **SIZES, **more)
        randomise(model)
        yield name, model.eval(), {**SIZES, **more}


class Colour(enum.Enum):
    RED = 1


def write_more(weights: Path, model: torch.nn.Module, row, versions: str) -> None:
    """Weights beside what only Python could make, in a folder of a trainer, in shards, in eight bits."""
    from safetensors.torch import save_file

    state = {key: value.clone() for key, value in model.state_dict().items()}
    beside = {
        "args": argparse.Namespace(output=Path("/out"), lr=1e-3), "mean": np.arange(3.0), "random": np.random.RandomState(0).get_state(),
        "history": defaultdict(list, loss=[1.0]), "when": datetime.datetime(2024, 1, 2), "by_colour": {Colour.RED: Colour.RED},
    }
    torch.save({**beside, "model": state}, weights / "torch_2" / "beside.pth")
    row("torch_2/beside.pth", model, f"{versions}, torch.save")
    others = {key: torch.zeros_like(value) for key, value in state.items()}
    torch.save({"epoch": 1, "state_dict": state, "metric": 71.5}, weights / "trained" / "model_best.pth.tar")
    torch.save({"epoch": 2, "state_dict": others, "metric": 0.5}, weights / "trained" / "last.pth.tar")
    row("trained", model, f"{versions}, the files of timm's train.py")
    names, weight_map = list(state), {}
    for number, part in enumerate((names[:9], names[9:]), 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({key: state[key] for key in part}, weights / "shards" / file)
        weight_map.update(dict.fromkeys(part, file))
    (weights / "shards" / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    row("shards", model, f"{versions}, torch.save")
    narrow = {key: value.to(torch.float8_e4m3fn) for key, value in state.items()}
    save_file(narrow, weights / "safetensors" / "float8.safetensors")
    model.load_state_dict({key: value.float() for key, value in narrow.items()})
    row("safetensors/float8.safetensors", model, "safetensors.torch.save_file")
    model.load_state_dict(state)


def step_timm(corpus: Path, rows: list, answers: dict) -> None:
    import timm
    from PIL import Image
    from safetensors.torch import save_file
    from timm.models import save_for_hf

    weights = corpus / "weights"
    (weights / "inputs").mkdir(parents=True, exist_ok=True)

    noise = np.random.default_rng(3)
    for name, (height, width) in zip(INPUTS, ((16, 16), (24, 32))):
        Image.fromarray(noise.integers(0, 256, (height, width, 3)).astype(np.uint8)).save(weights / name)

    def row(file: str, model: torch.nn.Module, writer: str, arguments: str = "") -> None:
        mean, std = (model.pretrained_cfg[key][: model.patch_embed.proj.in_channels] for key in ("mean", "std"))
        pictures = [tensor_of(weights / name, mean, std) for name in INPUTS]
        expected = judged(model, lambda made, picture: made(picture), pictures)
        rows.append({"kind": "weights", "file": f"weights/{file}", "by": writer, "arguments": arguments, **expected})

    versions = f"timm {timm.__version__}, torch {torch.__version__.partition('+')[0]}"
    for name, model, arguments in timm_models():
        save_for_hf(model, str(weights / "timm" / name), model_args=arguments, safe_serialization="both" if name == "vit" else True)
        row(f"timm/{name}", model, f"{versions}, save_for_hf")
        if name != "vit":
            continue
        row("timm/vit/pytorch_model.bin", model, f"{versions}, torch.save")
        config = (weights / "timm" / "vit" / "config.json").read_text()
        for folder in ("torch_1", "torch_2", "safetensors", "trained", "shards"):
            (weights / folder).mkdir(exist_ok=True)
            (weights / folder / "config.json").write_text(config)
        state = {key: value.clone() for key, value in model.state_dict().items()}
        for file, kind, metadata in (("half", torch.float16, {"format": "pt"}), ("bfloat16", torch.bfloat16, None)):
            rounded = {key: value.to(kind) for key, value in state.items()}
            save_file(rounded, weights / "safetensors" / f"{file}.safetensors", metadata)
            model.load_state_dict(rounded)
            row(f"safetensors/{file}.safetensors", model, "safetensors.torch.save_file")
        model.load_state_dict(state)
        torch.save(state, weights / "torch_2" / "protocol_5.pth", pickle_protocol=5)
        torch.save({"model": state, "epoch": 299}, weights / "torch_2" / "legacy.pth", _use_new_zipfile_serialization=False)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.zeros(1, 3, 16, 16)).sum().backward()
        optimizer.step()
        # The file of timm's CheckpointSaver: weights after the step, and their average under another name.
        module = OrderedDict(("module." + key, value.clone()) for key, value in model.state_dict().items())
        saved = {"epoch": 3, "arch": "vit_tiny_patch16_224", "state_dict": module, "optimizer": optimizer.state_dict(), "version": 2,
                 "args": argparse.Namespace(lr=1e-3, mean=None), "state_dict_ema": state, "metric": 71.5}
        torch.save(saved, weights / "torch_2" / "training.pth")
        row("torch_2/training.pth", model, f"{versions}, CheckpointSaver's keys")
        model.load_state_dict(state)
        row("torch_2/training.pth", model, f"{versions}, its average", "--set use-ema=on")
        row("torch_2/protocol_5.pth", model, f"{versions}, torch.save")
        row("torch_2/legacy.pth", model, f"{versions}, torch.save before 1.6's format")
        write_more(weights, model, row, versions)
        for file in ("plain.pth", "legacy.pth", "training.pth"):
            row(f"torch_1/{file}", model, "torch 1.13.1, torch.save")
        np.savez(STATE, **{key: value.numpy() for key, value in state.items()})


def step_torch_1(corpus: Path, rows: list, answers: dict) -> None:
    """The weights of timm/vit, written by torch 1.13; timm's logits stay what they are."""
    with np.load(STATE) as file:
        state = OrderedDict((key, torch.from_numpy(file[key])) for key in file.files)
    folder = corpus / "weights" / "torch_1"
    torch.save(state, folder / "plain.pth")
    torch.save(state, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    parameters = OrderedDict((key, torch.nn.Parameter(value)) for key, value in state.items())
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1, momentum=0.9)
    torch.save({"epoch": 7, "model": parameters, "optimizer": optimizer.state_dict()}, folder / "training.pth")


def transformers_models():
    """Name -> model and image processor."""
    import transformers

    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 16, "patch_size": 4,
             "num_labels": 5}
    vit, deit = transformers.ViTConfig(**sizes), transformers.DeiTConfig(**sizes, layer_norm_eps=1e-6)
    plain = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    cropping = transformers.DeiTImageProcessor(size={"height": 20, "width": 20}, crop_size={"height": 16, "width": 16})
    unbiased = transformers.ViTConfig(**sizes, qkv_bias=False, layer_norm_eps=1e-3)
    return {
        "vit": (transformers.ViTForImageClassification(vit), plain),
        "vit_state_dict": (transformers.ViTForImageClassification(vit), plain),
        "vit_without_bias": (transformers.ViTForImageClassification(unbiased), plain),
        "deit": (transformers.DeiTForImageClassification(deit), cropping),
        "deit_distilled": (transformers.DeiTForImageClassificationWithTeacher(deit), cropping),
    }


def step_transformers(corpus: Path, rows: list, answers: dict) -> None:
    import transformers
    from PIL import Image
    from safetensors.torch import save_file

    major, weights = transformers.__version__.partition(".")[0], corpus / "weights"
    for name, (model, processor) in transformers_models().items():
        if name == "vit_state_dict" and major == "4":
            continue  # in version 4 the names in memory are those of the file
        randomise(model)
        model.eval()
        folder = weights / f"transformers_{major}" / name
        # Several files and their index, as large models are stored.
        model.save_pretrained(folder, **({"max_shard_size": "4KB"} if name == "vit" else {}))
        if name == "vit_state_dict":
            # The names that version 5 has in memory; save_pretrained writes those of version 4.
            save_file(model.state_dict(), folder / "model.safetensors")
        processor.save_pretrained(folder)
        pictures = [tensor_of(weights / file, processor.image_mean, processor.image_std) for file in INPUTS]
        expected = judged(model, lambda made, picture: made(picture, interpolate_pos_encoding=True).logits, pictures)
        picture = Image.open(corpus / "pictures" / "good" / "colour.png").convert("RGB")
        pixels = np.asarray(processor(picture, return_tensors="pt")["pixel_values"][0], dtype=np.float32)
        answers[str(folder.relative_to(corpus))] = pixels
        rows.append({"kind": "weights", "file": str(folder.relative_to(corpus)), "by": f"transformers {transformers.__version__}",
                     "arguments": "", **expected, "processed": "pictures/good/colour.png"})


def main() -> None:
    step, corpus, results = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(7)
    rows: list[dict] = []
    answers: dict[str, np.ndarray] = {}
    {"timm": step_timm, "torch_1": step_torch_1, "transformers": step_transformers}[step](corpus, rows, answers)
    (results / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.savez(results / "answers.npz", **answers)


if __name__ == "__main__":
    main()
