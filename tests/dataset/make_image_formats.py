#!/usr/bin/env python3
"""Writes tests/dataset/formats/: small images in every form that PNG and JPEG have for pixels, and
cases.json with the red, green and blue bytes that image_formats_test.cpp expects of each.

    python3 tests/dataset/make_image_formats.py    # needs NumPy and Pillow

Pillow says what is expected: Image.open(FILE).convert("RGB"), turned by ImageOps.exif_transpose where
there are EXIF data. Grey values of 16 bits are the exception: Pillow clips them, expected are their
upper 8 bits, as Pillow itself takes them of colours.
"""

import io
import json
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

FOLDER = pathlib.Path(__file__).parent / "formats"
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def chunk(name, data):
    return struct.pack(">I4s", len(data), name) + data + struct.pack(">I", zlib.crc32(name + data))


def packed_rows(samples, depth):
    """Rows of height x width x channels samples, each behind its filter byte."""
    rows = b""
    for row in samples.reshape(len(samples), -1):
        if depth == 16:
            packed = row.astype(">u2").tobytes()
        else:
            bits = "".join(f"{value:0{depth}b}" for value in row)
            bits += "0" * (-len(bits) % 8)
            packed = bytes(int(bits[at:at + 8], 2) for at in range(0, len(bits), 8))
        rows += b"\0" + packed
    return rows


def png(samples, depth, colour, before=b"", after=b"", interlaced=False):
    height, width = samples.shape[:2]
    if interlaced:
        passes = [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2),
                  (0, 2, 1, 2), (1, 2, 0, 1)]
        parts = [samples[y::dy, x::dx] for y, dy, x, dx in passes]
        rows = b"".join(packed_rows(part, depth) for part in parts if part.size)
    else:
        rows = packed_rows(samples, depth)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before +
            chunk(b"IDAT", zlib.compress(rows)) + after + chunk(b"IEND", b""))


def tiff(orientation, order="<", kind=3, count=1):
    """EXIF data with two entries, the second one the orientation."""
    mark = b"II" if order == "<" else b"MM"
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *([orientation, 0] if kind == 3 else
                                                              [orientation]))
    return (mark + struct.pack(order + "HIH", 42, 8, 2) +
            struct.pack(order + "HHII", 0x0100, 4, 1, 7) +
            struct.pack(order + "HHI", 0x0112, kind, count) + value + struct.pack(order + "I", 0))


def picture(rng, height, width):
    """Smooth colours, so that JPEG keeps them."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [120 + 100 * np.sin(y / height * a + x / width * b) for a, b in rng.uniform(1, 4, (3, 2))]
    return np.stack(channels, axis=2).astype(np.uint8)


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def with_app1(file, data):
    """The JPEG with an APP1 segment behind its start."""
    return file[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + file[2:]


def main():
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(11)
    cases = []

    def expect(name, file, expected=None):
        (FOLDER / name).write_bytes(file)
        stored = Image.open(FOLDER / name)
        shown = ImageOps.exif_transpose(stored).convert("RGB") if expected is None else expected
        pixels = np.asarray(shown)
        cases.append({"file": name, "height": pixels.shape[0], "width": pixels.shape[1],
                      "pixels": pixels.tobytes().hex()})

    def samples(depth, colour, height=5, width=7):
        return rng.integers(0, 1 << depth, (height, width, CHANNELS[colour]))

    gamma = chunk(b"gAMA", struct.pack(">I", 100000))
    srgb = chunk(b"sRGB", b"\0")
    colours = rng.integers(0, 256, 48, dtype=np.uint8).tobytes()
    palette = chunk(b"PLTE", colours)
    for depth in (1, 2, 4, 8):
        expect(f"grey{depth}.png", png(samples(depth, GREY), depth, GREY))
        expect(f"palette{depth}.png",
               png(samples(min(depth, 4), PALETTE), depth, PALETTE, chunk(b"PLTE", colours[:3 << min(depth, 4)])))
    expect("grey4-gamma.png", png(samples(4, GREY), 4, GREY, gamma))
    expect("rgb8.png", png(samples(8, RGB), 8, RGB))
    expect("rgb8-gamma.png", png(samples(8, RGB), 8, RGB, gamma))
    expect("rgb8-srgb.png", png(samples(8, RGB), 8, RGB, srgb))
    expect("rgb16.png", png(samples(16, RGB), 16, RGB))
    expect("rgb16-gamma.png", png(samples(16, RGB), 16, RGB, gamma))
    expect("grey-alpha8.png", png(samples(8, GREY_ALPHA), 8, GREY_ALPHA))
    expect("grey-alpha16.png", png(samples(16, GREY_ALPHA), 16, GREY_ALPHA))
    expect("rgba8.png", png(samples(8, RGBA), 8, RGBA))
    expect("rgba16.png", png(samples(16, RGBA), 16, RGBA))
    grey = samples(16, GREY)
    expect("grey16.png", png(grey, 16, GREY),
           Image.fromarray((grey[:, :, 0] >> 8).astype(np.uint8)).convert("RGB"))
    some = samples(8, RGB)
    key = struct.pack(">HHH", *map(int, some[1, 2]))
    expect("rgb8-transparent.png", png(some, 8, RGB, chunk(b"tRNS", key)))
    some = samples(2, GREY)
    expect("grey2-transparent.png",
           png(some, 2, GREY, chunk(b"tRNS", struct.pack(">H", int(some[0, 0, 0])))))
    expect("palette4-transparent.png",
           png(samples(4, PALETTE), 4, PALETTE, palette + chunk(b"tRNS", b"\0\x40\x80")))
    for name, depth, colour in (("grey2", 2, GREY), ("rgb8", 8, RGB), ("rgba16", 16, RGBA),
                                ("palette4", 4, PALETTE)):
        expect(f"{name}-interlaced.png",
               png(samples(depth, colour, 9, 11), depth, colour,
                   palette if colour == PALETTE else b"", interlaced=True))

    photo = Image.fromarray(picture(rng, 19, 26))
    inks = Image.fromarray(np.concatenate([picture(rng, 19, 26), picture(rng, 19, 26)[:, :, :1]],
                                          axis=2), "CMYK")
    expect("colour.jpg", jpeg(photo))
    expect("progressive.jpg", jpeg(photo, progressive=True))
    expect("whole-chroma.jpg", jpeg(photo, subsampling=0))
    expect("grey.jpg", jpeg(photo.convert("L")))
    cmyk = jpeg(inks)
    expect("cmyk.jpg", cmyk)
    adobe = cmyk.index(b"Adobe")
    # The last byte of Adobe's segment says which colours the channels are: 2 is YCCK.
    expect("ycck.jpg", cmyk[:adobe + 11] + b"\x02" + cmyk[adobe + 12:])
    expect("cmyk-without-adobe.jpg", cmyk[:adobe - 4] + cmyk[adobe + 12:])

    rows = picture(rng, 5, 7)
    small = Image.fromarray(picture(rng, 13, 21))
    for number in range(1, 9):
        order = "<>"[number % 2]
        expect(f"exif{number}.png", png(rows, 8, RGB, chunk(b"eXIf", tiff(number, order))))
        expect(f"exif{number}.jpg", with_app1(jpeg(small), b"Exif\0\0" + tiff(number, order)))
    expect("exif-at-the-end.png", png(rows, 8, RGB, after=chunk(b"eXIf", tiff(6))))
    expect("exif-long.jpg", with_app1(jpeg(small), b"Exif\0\0" + tiff(8, ">", kind=4)))
    expect("exif-behind-another.jpg",
           with_app1(with_app1(jpeg(small), b"Exif\0\0" + tiff(3)), b"http://ns.adobe.com/xap/1.0/\0<x/>"))
    for number in (0, 9):
        expect(f"exif-number{number}.jpg", with_app1(jpeg(small), b"Exif\0\0" + tiff(number)))

    (FOLDER / "cases.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
