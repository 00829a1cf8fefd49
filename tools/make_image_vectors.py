#!/usr/bin/env python3
"""Writes tests/data/media/decoded.json: what Pillow 12.0 decodes each image of that folder to. Images 34 and up are made
here too; those before are generated shapes and noise from the goldens of the released image processor.

Usage: make_image_vectors.py            (needs `pip install pillow==12.0.0`)
"""

import hashlib
import json
import sys
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).resolve().parent.parent / "tests/data/media"


def make_animation(path):
    first, second = Image.new("RGBA", (20, 14), (10, 200, 30, 255)), Image.new("RGBA", (20, 14), (0, 0, 255, 128))
    for x in range(20):
        first.putpixel((x, x % 14), (255, x * 9, 0, 40 + x * 10))
    first.save(path, save_all=True, append_images=[second], duration=80, lossless=True)


def make_interlaced(path):
    image = Image.new("P", (21, 19))
    image.putpalette([v for i in range(16) for v in (i * 16, 255 - i * 9, i * 3)])
    image.putdata([(x * 7 + y * 3) % 16 for y in range(19) for x in range(21)])
    image.save(path, interlace=1)


def make_frame_inside_screen(interlaced, path):
    """The frame of `interlaced` on a screen of 30x28, at (5, 4)."""
    data = bytearray(interlaced.read_bytes())
    frame = data.index(b",")
    data[6:10] = bytes((30, 0, 28, 0))
    data[frame + 1], data[frame + 3] = 5, 4
    path.write_bytes(data)


def make_gray_alpha(path):
    image = Image.new("LA", (9, 7))
    image.putdata([(i * 20 % 256, 255 - i * 3) for i in range(63)])
    image.save(path)


def decoded(path):
    image = Image.open(path)
    image.load()
    return {"size": image.size, "mode": image.mode, "sha256": hashlib.sha256(image.tobytes()).hexdigest()}


def main():
    make_animation(FOLDER / "34_webp_animated_20x14.webp")
    make_interlaced(FOLDER / "35_gif_interlaced_21x19.gif")
    make_frame_inside_screen(FOLDER / "35_gif_interlaced_21x19.gif", FOLDER / "36_gif_frame_inside_screen_30x28.gif")
    make_gray_alpha(FOLDER / "37_png_gray_alpha_9x7.png")
    images = sorted(path for path in FOLDER.iterdir() if path.suffix != ".json")
    text = json.dumps({path.name: decoded(path) for path in images}, indent=1)
    (FOLDER / "decoded.json").write_text(text + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
