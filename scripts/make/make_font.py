"""Makes the font that pictures are captioned with: `assets/fonts/`.

    python scripts/make/make_font.py DejaVuSans.ttf [--out assets/fonts]

Keeps of DejaVu Sans 2.37 (https://dejavu-fonts.github.io/) the letters of Latin, Greek and Cyrillic
with their accents, punctuation, digits above and below, currencies, arrows, mathematics and some
shapes; drops hinting and layout tables, which viz/text does not read. The licence is the text that
the font itself holds. Needs fonttools (4.58.4 made what is kept).
"""

import argparse
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

RANGES = [
    (0x0020, 0x007E),  # Basic Latin
    (0x00A0, 0x024F),  # Latin-1 Supplement, Latin Extended-A, -B
    (0x02B0, 0x036F),  # modifier letters, combining accents
    (0x0370, 0x03FF),  # Greek
    (0x0400, 0x052F),  # Cyrillic
    (0x1E00, 0x1FFF),  # Latin Extended Additional (Vietnamese), Greek Extended
    (0x2000, 0x206F),  # punctuation
    (0x2070, 0x209F),  # superscripts, subscripts
    (0x20A0, 0x20BF),  # currencies
    (0x2100, 0x214F),  # letterlike symbols
    (0x2190, 0x21FF),  # arrows
    (0x2200, 0x22FF),  # mathematics
    (0x25A0, 0x25FF),  # geometric shapes
    (0xFFFD, 0xFFFD),  # stands for what no font has
]
SOURCE_VERSION = "Version 2.37"
LICENCE = 13  # of the name table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("font", type=Path)
    parser.add_argument("--out", type=Path, default=Path("assets/fonts"))
    arguments = parser.parse_args()

    font = TTFont(arguments.font, recalcTimestamp=False)
    version = font["name"].getDebugName(5)
    if version != SOURCE_VERSION:
        raise SystemExit(f"error: expected DejaVu Sans, {SOURCE_VERSION}, found {version}")
    licence = font["name"].getDebugName(LICENCE)

    options = subset.Options()
    options.hinting = False
    options.legacy_kern = True
    options.layout_features = []
    options.drop_tables += ["FFTM", "GDEF", "GPOS", "GSUB", "MATH", "gasp"]
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, LICENCE, 14]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
    subsetter.subset(font)

    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / "DejaVuSans-subset.ttf"
    font.save(target)
    lines = [line.rstrip() for line in licence.replace("\r\n", "\n").split("\n")]
    (arguments.out / "DejaVuSans-LICENSE.txt").write_text("\n".join(lines).rstrip() + "\n")
    print(f"{target}: {target.stat().st_size} bytes, {len(font.getBestCmap())} characters")


if __name__ == "__main__":
    main()
