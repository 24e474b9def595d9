"""Makes the videos of tests/corpus/videos whose frames come unevenly, or are decoded in another order than shown.

    python scripts/make/make_videos.py

Needs NumPy and PyAV 18.1.0, whose encoders it uses; other versions give other bytes. Frame k is grey of level 5 k, 32x16 pixels. `uneven`: 40 frames
25 ms apart, then ten a second apart, from 1 s on. `late`: three frames 1.5 s apart that begin at 5 s. `equal`: frames at 0, 0, 40, 80, 80 and 120 ms.
"""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "videos"
UNEVEN = [25 * i for i in range(40)] + [1000 * i for i in range(1, 11)]
MILLISECONDS = Fraction(1, 1000)
H264 = {"preset": "veryslow", "bf": "2", "crf": "20", "x264-params": "info=0"}
FILES = {  # name: codec, times in milliseconds, options of the encoder, options of the container
    "uneven.mp4": ("libx264", UNEVEN, H264, {"movflags": "+faststart"}),
    "uneven.mkv": ("mpeg4", UNEVEN, {"bf": "2", "b": "60k"}, {}),
    "uneven.webm": ("libvpx", UNEVEN, {"b": "60k"}, {}),
    "fragments.mp4": ("libx264", UNEVEN, H264, {"movflags": "frag_keyframe+empty_moov"}),
    "late.mkv": ("libx264", [5000, 6500, 8000], H264, {}),
    "equal.mkv": ("libx264", [0, 0, 40, 80, 80, 120], {**H264, "bf": "0"}, {}),
}


def write(file: Path, codec: str, times: list[int], options: dict, container: dict) -> None:
    with av.open(str(file), "w", options={"fflags": "+bitexact", **container}) as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        stream.codec_context.time_base = MILLISECONDS
        for number, time in enumerate(times):
            grey = np.full((16, 32, 3), 5 * number, dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = time, MILLISECONDS
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


for name, how in FILES.items():
    write(FOLDER / name, *how)
