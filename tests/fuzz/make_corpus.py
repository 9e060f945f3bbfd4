#!/usr/bin/env python3
"""Writes the inputs that fuzzing begins with: small valid files of each kind, a few KB in all.

    make_corpus.py FOLDER     makes FOLDER/<harness>/<input>

The bytes around the files are those that the harnesses take from the front (fuzz.hpp): numbers, and
parts with their lengths.
"""
import base64
import gzip
import io
import pathlib
import struct
import sys
import zipfile
import zlib

# 17 x 13 pixels, by Pillow.
JPEGS = {
    "colour": """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u
71////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4
+Pj4+Pj4+Pj4+Pj/wAARCAANABEDASIAAhEBAxEB/8QAFwABAQEBAAAAAAAAAAAAAAAAAAMABf/EABsQAAICAwEAAAAAAAAAAA
AAAAADAmEBBBMU/8QAFwEAAwEAAAAAAAAAAAAAAAAAAQIDBP/EABkRAAIDAQAAAAAAAAAAAAAAAAABAgMRE//aAAwDAQACEQMR
AD8ADBFG8NehK14FLVEgpaCm5gfPRHT5RIbDX3Z//9k=""",
    "progressive": """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u
71////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4
+Pj4+Pj4+Pj4+Pj/wgARCAANABEDAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAgP/xAAYAQEAAwEAAAAAAAAAAAAAAA
ACAAEDBP/aAAwDAQACEAMQAAABgKc2caHDV6q3/8QAFxABAQEBAAAAAAAAAAAAAAAAAAEREv/aAAgBAQABBQLHLlIkY//EABgR
AQEAAwAAAAAAAAAAAAAAAAEAAhES/9oACAEDAQE/ARjK6hht3//EABURAQEAAAAAAAAAAAAAAAAAAAEg/9oACAECAQE/AWv/xA
AUEAEAAAAAAAAAAAAAAAAAAAAg/9oACAEBAAY/Al//xAAXEAEBAQEAAAAAAAAAAAAAAAAAARAR/9oACAEBAAE/IYzQg4f/2gAM
AwEAAgADAAAAEHAhP//EABcRAQEBAQAAAAAAAAAAAAAAAAABEBH/2gAIAQMBAT8Q3llnT//EABcRAAMBAAAAAAAAAAAAAAAAAA
ABEBH/2gAIAQIBAT8QjBMU/8QAGBAAAgMAAAAAAAAAAAAAAAAAAGEBEHH/2gAIAQEAAT8QWKMEFq//2Q==""",
    "cmyk": """
/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAoHB4jHhkoIyEjLSsoMDxkQTw3Nzx7WF1JZJGAmZaPgIyKoLTmw6Cq2q2KjMj/y9ru9f
///5vB////+v/m/f/4/8AAFAgADQARBEMRAE0RAFkRAEsRAP/EABkAAAMBAQEAAAAAAAAAAAAAAAAEBQMCBv/EAB4QAAEDBQEB
AAAAAAAAAAAAAAABAgMEERMUQWES/9oADgRDAE0AWQBLAAA/AH6ro5ueldzrD0spHquhuemLp7dEpZRENz042vTDKemqukTO40
nW1xmV6keq6GdxOnkVLiUr1EQzuFczjD7U/9k=""",
    "grey": """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u
71////m8H////6/+b9//j/wAALCAANABEBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABAUG/8QAFhABAQEAAAAAAAAAAAAAAAAA
BAYA/9oACAEBAAA/AAS4sS4azUuLEuGv/9k=""",
}


def part(contents):
    return struct.pack("<H", len(contents)) + contents


def idx(magic, sizes, values):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + values


def idx_inputs():
    images, labels = idx(0x803, [2, 3, 4], bytes(range(24))), idx(0x801, [2], b"\x03\x09")
    yield "plain", bytes([9]) + part(images) + labels
    yield "gzip", bytes([9]) + part(gzip.compress(images, mtime=0)) + gzip.compress(labels, mtime=0)


def gzip_inputs():
    text = b"some text, some more text, some more text\n" * 4
    one, two = gzip.compress(text, mtime=0), gzip.compress(b"a second member", mtime=0)
    yield "plain", b"\x10" + text
    yield "member", b"\x01" + one
    yield "members", b"\xff" + one + two
    yield "stored", b"\x03" + gzip.compress(text, compresslevel=0, mtime=0)


def cifar_inputs():
    picture = bytes(i * 7 % 256 for i in range(3 * 32 * 32))
    yield "ten", b"\x00" + part(b"\x03" + picture) + b"\x09" + picture
    packed = gzip.compress(b"\x00\x05" + picture, mtime=0)
    yield "hundred", b"\x01" + part(b"\x03\x63" + picture) + packed


def png(depth, colour, rows, extra=b""):
    def chunk(name, data):
        return struct.pack(f">I4s{len(data)}sI", len(data), name, data, zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", 4, len(rows), depth, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", pixels) +
            chunk(b"IEND", b""))


def exif(orientation, order):
    """EXIF data with nothing but the orientation."""
    return (b"II" if order == "<" else b"MM") + struct.pack(
        order + "HIHHHIHHI", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def image_inputs():
    front = b"\x08\x01\x02"  # side and seed
    palette = struct.pack(">I4s6sI", 6, b"PLTE", b"\x01\x02\x03\xff\xfe\xfd",
                          zlib.crc32(b"PLTE\x01\x02\x03\xff\xfe\xfd"))
    yield "rgb.png", front + png(8, 2, [bytes(range(12)), bytes(range(12, 24))])
    yield "grey16.png", front + png(16, 0, [bytes(range(8))] * 3)
    yield "alpha.png", front + png(8, 6, [bytes(range(16))] * 2)
    yield "palette.png", front + png(1, 3, [b"\x50", b"\xa0"], palette)
    turned = exif(6, "<")
    chunk = struct.pack(f">I4s{len(turned)}sI", len(turned), b"eXIf", turned,
                        zlib.crc32(b"eXIf" + turned))
    yield "turned.png", front + png(8, 2, [bytes(range(12)), bytes(range(12, 24))], chunk)
    for name, text in JPEGS.items():
        yield f"{name}.jpg", front + base64.b64decode(text)
    grey, segment = base64.b64decode(JPEGS["grey"]), b"Exif\0\0" + exif(8, ">")
    yield "turned.jpg", (front + grey[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) +
                         segment + grey[2:])


def npy(descr, shape, data, version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    length = 2 if version == 1 else 4
    text += " " * (-(8 + length + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I",
                                                          len(text)) + text.encode() + data


def npz_inputs():
    arrays = {"updater/model:main/l1/W": npy("<f4", "(2, 3)", bytes(24)),
              "iteration": npy("<i8", "()", bytes(8)),
              "name": npy("<U3", "()", b"a\0\0\0b\0\0\0c\0\0\0")}
    for name, array in arrays.items():
        yield f"header-{len(name)}", b"\x00" + array
    yield "header-long", b"\x00" + npy("|u1", "(5,)", bytes(5), version=2)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, array in arrays.items():
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array, method)
        yield f"file-{method}", b"\x01" + file.getvalue()
    yield "entries", b"\x02" + b"".join(bytes([i]) + part(array)
                                        for i, array in enumerate(arrays.values()))


def arrays_inputs():
    yield "npy-i2", b"\x02" + npy(">i2", "(3, 2)", bytes(range(12)))
    yield "npy-u1", b"\x05" + npy("|u1", "(4,)", bytes(range(4)))
    yield "npy-f8", b"\x02" + npy("<f8", "(2, 2)", bytes(32))
    for mode in (0, 1):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", method) as archive:
                with archive.open(zipfile.ZipInfo("a.npy"), "w", force_zip64=method == 0) as member:
                    member.write(npy("<i4", "(3, 2)", bytes(range(24))))
                archive.writestr("b.npy", npy("<f4", "(2,)", bytes(8)))
            yield f"npz-{mode}-{method}", bytes([mode]) + file.getvalue()


def hdf5_inputs():
    arrays = pathlib.Path(__file__).resolve().parent.parent / "array_files/arrays"
    for name in ("old", "userblock"):
        for mode in (0, 1):
            yield f"{name}-{mode}", bytes([mode]) + gzip.decompress(
                (arrays / f"{name}.h5.gz").read_bytes())


def safetensors_inputs():
    header = (b'{"__metadata__":{"format":"pt"},"l1.weight":{"dtype":"F32","shape":[2,3],'
              b'"data_offsets":[0,24]},"n":{"dtype":"I16","shape":[],"data_offsets":[24,26]},'
              b'"e":{"dtype":"F8_E4M3","shape":[0,5],"data_offsets":[26,26]},'
              b'"c":{"dtype":"C64","shape":[1],"data_offsets":[26,34]}}')
    yield "file", b"\x00" + struct.pack("<Q", len(header)) + header + bytes(range(34))
    yield "header", b"\x01" + struct.pack("<H", 34) + header


def manifest_inputs():
    line = (b'{"name": "state.npz", "part": "", "bytes": 640, "hash": "0123456789abcdef", '
            b'"arrays": [{"name": "iteration", "xxh3": "0123456789abcdef"},'
            b'{"name": "l1/W/m", "xxh3": "fedcba9876543210", "begin": 0, "end": 15, "shape": [6, 5]}]}')
    yield "file", b"\x00" + line
    body = (b'{\n"format": 1,\n"id": "0123456789abcdef0123456789abcdef",\n"iteration": 20,\n'
            b'"epoch": 1,\n"parts": 1,\n"files": [\n' +
            line.replace(b"[{", b"[\n {").replace(b",{", b",\n {").replace(b"}]}", b"}\n ]}") +
            b"\n],\n")
    yield "body", b"\x02" + body


def json_inputs():
    yield "log", b'\0[{"main/loss": 0.25, "epoch": 1, "elapsed_time": 1e-3}, {"main/loss": null}]'
    yield "texts", b'\0{"out": "caf\xf4\x8f\xbf\xa9", "\xc3\xbc": "\\u001b\\ud83d\\ude42", "n": -1}'
    yield "bytes", b'\1caf\xe9 \xc3\xbc'


def config_inputs():
    yield "settings", b'# run\nbatchsize = 100\n\nout = "a \\"b\\" # c"  # why\n; end\nlr=0.1\r\n'
    yield "empty", b"\n# nothing\n"


def flags_inputs():
    def line(*arguments, file=b""):
        return part(file) + b"\0".join(arguments)
    yield "long", line(b"--count", b"7", b"--rate=2.5e-3", b"--shape", b"circle", b"--mode=exact")
    yield "short", line(b"-c3", b"-q", b"-o", b"some folder", b"-n", b"-1", b"--quiet=no")
    yield "lists", line(b"--steps", b"1,2.5,3e8", b"--limit", b"auto", b"--scale=0.5", b"--name=x")
    yield "file", line(b"--config", b"run.ini", b"--print-config",
                       file=b'count = 5\nname = "a # b"\nsteps = none\n')
    yield "help", line(b"--help")
    yield "help-word", line(b"--help", b"NUMBER", b"-h", b"--count=3")


def heartbeat_inputs():
    rank = bytes(range(1, 3)) * 64
    yield "empty", b"\x00" + struct.pack("<iQBQ", 1, 7, 0, 0)
    for size in range(56, 72):  # one rank, whatever its fields take
        yield f"rank-{size}", b"\x00" + struct.pack("<iQBQ", 1, 7, 1, 1) + bytes(size)
    yield "addresses", b"\x01" + bytes([13, 5, 14, 6, 15, 7]) + rank


def steps_inputs():
    def steps(kind, iteration, contents):
        return struct.pack("<BH", kind, iteration) + contents
    header = b"iteration,epoch,elapsed_time,seconds,main/loss\n"
    yield "table", steps(0, 2, header + b"1,0.5,1,1,4\n2,1,2,1,\n3,1.5,3,1,nan\n4")
    yield "header", steps(0, 0, header + b"1,0.5,1,1,4\n")
    yield "lines", steps(1, 1, b'{"iteration":1,"epoch":0.5}\n{"iteration":2,"epoch":1.0}\n{"iter')


def hashes_inputs():
    def lines(kind, iteration, contents):
        return struct.pack("<BBH", kind, 0, iteration) + contents
    header = b'{"hashes of":"the bytes of each array","by":"XXH3, 64 bits, seed 0","version":1}\n'
    step = b'{"iteration":7,"loss":0.5,"hashes":{"loss":"0123456789abcdef","states":"2d06800538d394c2"},"states":{}'
    yield "line", lines(0, 0, step + b"}")
    yield "end", lines(0, 0, step + b',"end":true}')
    yield "file", lines(1, 8, header + step + b'}\n{"iteration":8,"hashes":{},"end":true}\n{"iter')


def text_inputs():
    def files(kind, choice, one, other=b""):
        return bytes([kind, choice]) + part(one) + other
    yield "table", files(0, 0, b'a,"b, c",t\n1,2.5,0\n-1e-3,+4,"1"\n')
    yield "numbers", files(0, 3, b"a;b\n1;2\n\n3;4")
    yield "packed", files(0, 1, gzip.compress(b"a,b\n1,2\n", mtime=0))
    yield "tokens", files(1, 9, b"3 1 4\n\n1 5 9 2\n")
    yield "labelled", files(1, 10, b"2 3 1 4\n0\t5\n")
    yield "lines", files(2, 0, b"\xef\xbb\xbfone\r\ntwo\n")
    yield "images", files(3, 0, b"cat/1.jpg 0\na b.png\t1\n", b"dog/2.jpg 1\n")
    yield "pairs", files(4, 5, b"one two\nthree\n", b"eins zwei\ndrei\n")
    yield "windows", files(5, 3, b"to be or not to be")


def main():
    folder = pathlib.Path(sys.argv[1])
    for function, inputs in list(globals().items()):
        if not function.endswith("_inputs"):
            continue
        place = folder / function.removesuffix("_inputs")
        place.mkdir(parents=True, exist_ok=True)
        for name, contents in inputs():
            (place / name).write_bytes(contents)


if __name__ == "__main__":
    main()
