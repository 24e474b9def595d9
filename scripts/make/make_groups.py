"""Makes `assets/labels/imagenet1k_groups.txt`: named groups of ImageNet-1k's classes, which are hypernyms in WordNet 3.0.

    python scripts/make/make_groups.py [--wordnet /usr/share/wordnet] [--out FILE]

Reads `data.noun` (Debian's package wordnet-base). Its offsets are the ids of `assets/labels/imagenet1k.txt`. A class has one chain of groups: its
hypernyms, the first where WordNet has several, that hold LEAST to MOST of the classes. Of hypernyms with the same classes the nearest is taken.
The output depends on the two inputs alone. Standard library only.
"""

import argparse
import collections
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST, MOST = 3, 150  # classes of a group

# Hypernyms whose names tell an ordinary reader nothing, or that join what nobody joins.
UNHELPFUL = """n03183080 device, n03574816 instrument, n04263760 source of illumination, n04359589 support, n04361095 supporting structure, n04081844 restraint,
n03738472 mechanism, n03736970 mechanical device, n03100490 conveyance, n04170037 self-propelled vehicle, n03125870 craft, n03563967 implement,
n03265032 edge tool, n03101986 cooking utensil, n04317420 stick, n03294048 equipment, n04377057 system, n03122748 covering,
n04014297 protective covering, n04191943 shelter, n02851099 blind, n04453910 top, n03748162 mercantile establishment, n03297735 establishment,
n04580493 white goods, n03206908 dish, n13134947 fruit, n11675842 reproductive structure, n13087625 plant organ, n09366317 natural elevation,
n00020827 matter, n07570720 nutriment, n07556970 course, n07566340 foodstuff, n07555863 food, n00002137 abstraction, n02323902 leporid,
n02470899 anthropoid ape, n02401031 bovid, n02394477 even-toed ungulate, n01727646 colubrid snake, n01661818 diapsid, n02528163 teleost fish,
n01428580 soft-finned fish, n02552171 spiny-finned fish, n02514825 bony fish, n01482071 elasmobranch, n01480516 cartilaginous fish,
n01525720 oscine, n01845477 anseriform bird, n01802721 phasianid, n01976146 decapod crustacean, n01942177 gastropod, n03414162 game equipment,
n03699975 machine, n03815615 necktie, n02817799 beating-reed instrument, n03380867 footgear, n03082979 computer"""

# Words of a synset that are plainer than its first.
PLAINER = """n02370806 hoofed mammal, n02441326 mustelid, n01909422 cnidarian, n04598582 woodwind instrument, n02891788 brass instrument, n04530566 watercraft,
n03154073 cutting tool, n03502509 headgear, n03863923 outer garment, n07884567 alcoholic drink"""

# A synset, and the hypernym in the place of its first: another one of its own (bakery, game bird), or one that joins what WordNet holds twice.
MOVED = """n02776631 bakery: n04202417 shop, n02153203 game bird: n01789386 gallinaceous bird, n03770679 minivan: n02958343 car,
n04019101 public transport: n04524313 vehicle, n03380867 footgear: n03381126 footwear, n07555863 food: n00021265 food,
n03997484 power tool: n04451818 tool"""

# Places that one stands in or looks over, beside every hyponym of `geological formation`. Buildings that are seen whole (church, castle) are things.
SCENES = """n09287968 geological formation, n02776631 bakery, n02791270 barbershop, n02871525 bookshop, n02927161 butcher shop, n03032252 cinema,
n03089624 confectionery, n03461385 grocery store, n03529860 home theater, n03661043 library, n04081281 restaurant, n04200800 shoe shop,
n04443257 tobacco shop, n04462240 toyshop, n03457902 greenhouse, n04005630 prison, n04296562 stage, n03899768 patio, n03733281 maze,
n03160309 dam, n02894605 breakwater, n03933933 pier, n03216828 dock, n04532670 viaduct, n04366367 suspension bridge, n04311004 steel arch bridge,
n03042490 cliff dwelling, n03697007 lumbermill, n04523525 vault"""


class WordNet:
    def __init__(self, folder: Path) -> None:
        self.data = (folder / "data.noun").read_bytes()
        pairs = (pair.split(": ") for pair in MOVED.replace("\n", " ").split(", "))
        self.moved = {self.checked(synset): self.checked(hypernym) for synset, hypernym in pairs}

    def read(self, synset: str) -> tuple[list[str], list[str]]:
        """Words and hypernyms."""
        begin = int(synset[1:])
        fields = self.data[begin:self.data.index(b"\n", begin)].decode().split(" ")
        if fields[0] != synset[1:]:
            raise ValueError(f"{synset} is no synset: expected WordNet 3.0")
        words = 2 * int(fields[3], 16)
        pointers = fields[5 + words:5 + words + 4 * int(fields[4 + words])]
        return ([word.replace("_", " ") for word in fields[4:4 + words:2]],
                ["n" + pointers[i + 1] for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")])

    def checked(self, text: str) -> str:
        """The id of "n02776631 bakery", whose word must be one of the synset's."""
        synset, _, word = text.partition(" ")
        if word not in self.read(synset)[0]:
            raise ValueError(f"{synset} is {self.read(synset)[0]}, not {word}")
        return synset

    def table(self, text: str) -> dict[str, str]:
        """Ids and words of "n02776631 bakery, n02791270 barbershop"."""
        return {self.checked(item): item.partition(" ")[2] for item in text.replace("\n", " ").split(", ")}

    def hypernyms(self, synset: str) -> list[str]:
        """The nearest first."""
        found = self.read(synset)[1]
        above = self.moved.get(synset, found[0] if found else "")
        return [above, *self.hypernyms(above)] if above else []


def make_groups(wordnet: WordNet, labels: Path) -> str:
    unhelpful, plainer, places = (wordnet.table(text) for text in (UNHELPFUL, PLAINER, SCENES))
    paths = {}
    for line in labels.read_text(encoding="utf-8").splitlines():
        synset, _, names = line.partition(" ")
        if names != ", ".join(wordnet.read(synset)[0]):
            raise ValueError(f"{synset} has other words than {names}")
        paths[synset] = wordnet.hypernyms(synset)
    sizes = collections.Counter(synset for path in paths.values() for synset in path)
    own = collections.defaultdict(list)  # the classes that have the group as their nearest
    above = {}
    for label, path in paths.items():
        chain = []
        for synset in path:
            if synset not in unhelpful and LEAST <= sizes[synset] <= MOST and (not chain or sizes[synset] > sizes[chain[-1]]):
                chain.append(synset)
        above.update(zip(chain, [*chain[1:], "-"]))
        if chain:
            own[chain[0]].append(label)
    names = {synset: plainer.get(synset, wordnet.read(synset)[0][0]) for synset in above}
    if twice := [name for name, count in collections.Counter(names.values()).items() if count > 1]:
        raise ValueError(f"several groups are called {twice}")
    lines = [f"{synset}\t{names[synset]}\t{above[synset]}\t{' '.join(own[synset])}" for synset in sorted(above)]
    scenes = [label for label, path in paths.items() if places.keys() & {label, *path}]
    return "\n".join([
        "# Groups of the classes of ImageNet-1k, by scripts/make/make_groups.py from WordNet 3.0, Copyright 2006 by Princeton University.",
        "# All rights reserved. Licence: WordNet-LICENSE.txt. A line, by tabs: WordNet id of the group, its name, the group around it or -,",
        "# the classes that are in no smaller group. `scene` is no group: its classes have no place in a picture.",
        *lines, "scene\tscene\t-\t" + " ".join(scenes), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--out", type=Path, default=ROOT / "assets" / "labels" / "imagenet1k_groups.txt")
    arguments = parser.parse_args()
    text = make_groups(WordNet(arguments.wordnet), ROOT / "assets" / "labels" / "imagenet1k.txt")
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
