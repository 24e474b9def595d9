"""Makes tests/corpus: files of other programs and what those say of them (tests/corpus/README.md).

    python scripts/make/make_corpus.py --environments FOLDER

Each writer gets a virtual environment in FOLDER with the versions below, made where it is missing (14 GB for all). The folders
`pictures` and `weights` are made anew; `states` and their rows are kept, for only an earlier version could write them.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "tests" / "corpus"
COMMON = ["numpy==2.4.6", "pillow==13.0.0", "safetensors==0.8.0"]
TORCH = [*COMMON, "torch==2.11.0", "torchvision==0.26.0"]
# Environment -> its packages, and the step that runs there.
WRITERS = {
    "timm": ([*TORCH, "timm==1.0.31"], "timm"),
    "torch_1": (["torch==1.13.1", "numpy==1.26.4"], "torch_1"),
    "transformers_4": ([*TORCH, "transformers==4.57.6"], "transformers"),
    "transformers_5": ([*TORCH, "transformers==5.23.0"], "transformers"),
}


def environment(folder: Path, packages: list[str]) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def write_pictures() -> tuple[list[dict], dict]:
    """In the environment `timm`."""
    import corpus_forms as forms
    import corpus_hostile
    import corpus_pictures as made
    import numpy as np
    from PIL import Image

    rows, answers, other, not_read = [], {}, made.instead() | forms.instead(), forms.NOT_READ
    odd = {**made.odd_jpegs(), **made.odd_pngs(), **made.odd_others(), **forms.tiff_forms(), **forms.orientations(), **forms.ends()}
    kinds = {"good": made.good(), "odd": odd}
    for kind, files in kinds.items():
        for name, data in files.items():
            file = f"pictures/{kind}/{name}"
            (CORPUS / file).write_bytes(data)
            row = {"kind": "picture", "file": file}
            answered = data
            if name in other:
                answered, row["note"] = other[name]
            if name in not_read:
                rows.append({**row, "error": not_read[name], "note": "Pillow reads it"})
                continue
            try:
                picture = made.upright(answered)
            except OSError:
                rows.append({**row, "error": "decode_failed", "note": "nor does Pillow read it"})
                continue
            if max(picture.size) > 256 and min(picture.size) > 1:
                row["as"] = "squashed"
                picture = picture.resize((made.SQUASHED, made.SQUASHED), Image.Resampling.BICUBIC)
            answers[file] = np.asarray(picture)
            rows.append({**row, "tolerance": made.tolerance(file)})
    for name, (data, code) in corpus_hostile.pictures().items():
        (CORPUS / "pictures/hostile" / name).write_bytes(data)
        rows.append({"kind": "picture", "file": f"pictures/hostile/{name}", "error": code})
    for name, (data, text) in corpus_hostile.weights().items():
        file = CORPUS / "weights/hostile" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        rows.append({"kind": "weights", "file": f"weights/hostile/{name.partition('/')[0]}", "error": text})
    (CORPUS / "videos/six_frames.avi").write_bytes(made.video())
    return rows, answers


def finish(results: list[Path]) -> None:
    """The table and the answers, from those of all steps."""
    import numpy as np
    from safetensors_writer import write_safetensors

    rows, answers = write_pictures()
    for folder in results:
        rows += [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        with np.load(folder / "answers.npz") as file:
            answers |= {name: file[name] for name in file.files}
    table = CORPUS / "expected.jsonl"
    kept = [row for row in map(json.loads, table.read_text().splitlines()) if row["file"].startswith("states/")]
    rows = sorted(rows + kept, key=lambda row: row["file"])
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_safetensors(CORPUS / "answers.safetensors", answers, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--finish", type=Path, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.finish:
        finish(arguments.finish)
        return
    for folder in ("pictures", "weights"):
        shutil.rmtree(CORPUS / folder, ignore_errors=True)
    for folder in ("pictures/good", "pictures/odd", "pictures/hostile", "videos", "weights/hostile"):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        results, pythons = [], {}
        for name, (packages, step) in WRITERS.items():
            pythons[name] = environment(arguments.environments / name, packages)
            results.append(Path(temporary) / name)
            results[-1].mkdir()
            if step == "transformers":
                source = [pythons["timm"], "-B", "-c", "import corpus_pictures as p, sys; open(sys.argv[1], 'wb').write(p.good()['colour.png'])"]
                subprocess.run([*source, CORPUS / "pictures/good/colour.png"], cwd=HERE, check=True)
            subprocess.run([pythons[name], "-B", HERE / "corpus_weights.py", step, CORPUS, results[-1]], check=True)
        subprocess.run([pythons["timm"], "-B", __file__, "--finish", *results], check=True)
    size = sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file())
    print(f"{sum(1 for _ in (CORPUS / 'expected.jsonl').open())} rows, {size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
