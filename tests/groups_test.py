"""assets/labels/imagenet1k_groups.txt is what scripts/make/make_groups.py writes of WordNet 3.0 (Debian's package wordnet-base).

    groups_test.py [FOLDER]
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDNET = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/wordnet")

if __name__ == "__main__":
    if not (WORDNET / "data.noun").is_file():
        print("skipped: WordNet is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "groups.txt"
        subprocess.run([sys.executable, "-B", ROOT / "scripts/make/make_groups.py", "--wordnet", WORDNET, "--out", made], check=True)
        same = made.read_bytes() == (ROOT / "assets/labels/imagenet1k_groups.txt").read_bytes()
    print("the same groups" if same else "other groups: run scripts/make/make_groups.py")
    sys.exit(not same)
