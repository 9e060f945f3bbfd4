#!/usr/bin/env python3
"""Writes tests/dataset/pillow/: small images, and crops that Pillow has cut out of them and scaled,
which image_view_test.cpp compares with.

    python3 tests/dataset/make_pillow_references.py    # needs NumPy and Pillow
"""

import json
import pathlib

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "pillow"


def picture(rng, height, width):
    """Colours whose spectrum falls as in photographs, with some edges."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    frequency[0, 0] = 1
    channels = []
    common = rng.standard_normal((height, width))
    for _ in range(3):
        noise = common + 0.4 * rng.standard_normal((height, width))
        channels.append(np.fft.ifft2(np.fft.fft2(noise) / frequency**1.2).real)
    pixels = np.stack(channels, axis=2)
    pixels = (pixels - pixels.mean()) / pixels.std() * 50 + 128
    top, left = height // 4, width // 3
    pixels[top:top + height // 3, left:left + width // 4] += [60, -40, 20]
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def save(image, name):
    if name.endswith(".jpg"):
        image.save(FOLDER / name, quality=90)
    else:
        image.save(FOLDER / name, optimize=True)
    return Image.open(FOLDER / name).convert("RGB")


def main():
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    cases = []

    def expect(source, name, result, **view):
        number = len(cases)
        result.save(FOLDER / f"result{number}.png", optimize=True)
        cases.append({"source": name, "result": f"result{number}.png", **view})

    def crop(source, name, top, left, height, width, side, mirrored=False):
        result = source.crop((left, top, left + width, top + height))
        result = result.resize((side, side), Image.Resampling.BILINEAR)
        if mirrored:
            result = result.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        expect(source, name, result, top=top, left=left, height=height, width=width, side=side,
               mirrored=mirrored)

    def middle(source, name, shorter, side):
        width, height = source.size
        width, height = (shorter * length // min(source.size) for length in (width, height))
        result = source.resize((width, height), Image.Resampling.BILINEAR)
        left, top = round((width - side) / 2), round((height - side) / 2)
        expect(source, name, result.crop((left, top, left + side, top + side)), shorter=shorter,
               side=side)

    small = save(picture(rng, 61, 80), "small.png")
    crop(small, "small.png", 5, 11, 40, 52, 32)
    crop(small, "small.png", 0, 0, 61, 80, 24, mirrored=True)
    crop(small, "small.png", 20, 30, 15, 13, 33)
    middle(small, "small.png", 37, 32)
    large = save(picture(rng, 240, 320), "large.jpg")
    crop(large, "large.jpg", 33, 50, 97, 120, 64)
    crop(large, "large.jpg", 101, 7, 80, 61, 64, mirrored=True)
    crop(large, "large.jpg", 0, 0, 240, 320, 56)
    crop(large, "large.jpg", 3, 5, 230, 300, 24)
    crop(large, "large.jpg", 10, 20, 200, 250, 11)
    middle(large, "large.jpg", 73, 64)
    middle(large, "large.jpg", 36, 32)
    (FOLDER / "cases.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
