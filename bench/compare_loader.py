#!/usr/bin/env python3
"""Our loader of images against PyTorch's DataLoader with torchvision (Pillow), on the same files.

Both read JPEG files, take a random-resized crop of 224 x 224 pixels, mirror half of them and
normalise, by as many threads (or processes) as cores they are pinned to. They take turns. --data
names folders with a subfolder of images for each class; --scale N makes one of images scaled to
N x N pixels first (JPEG, quality 90), such as CIFAR's. Needs torchvision and Pillow.

    bench/compare_loader.py --data DIR/train --scale 256 --cores 1 2
    # Photographs of Debian's mate-backgrounds:
    mkdir photos; ln -s /usr/share/backgrounds/mate/nature photos/; bench/compare_loader.py --data photos
"""
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from comparison import HERE, heading, parser_for, publish, torches

SCALE = """
import pathlib, sys
from PIL import Image
source, to, side, most = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
for folder in sorted(p for p in source.iterdir() if p.is_dir()):
    (to / folder.name).mkdir()
    for file in sorted(folder.iterdir())[:most]:
        image = Image.open(file).convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
        image.save(to / folder.name / (file.stem + ".jpg"), quality=90)
"""


def rate_of(command, cores):
    pinned = ["taskset", "-c", f"0-{cores - 1}"] + [str(part) for part in command]
    done = subprocess.run(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"compare_loader.py: {shlex.join(pinned)} failed:\n{done.stderr}")
    return float(done.stdout)


def compare(folder, options, peers, cores):
    programs = {"Tasuki": [options.build / "bench/bench_image_stream"]}
    for name, python in peers.items():
        programs[name] = [python, HERE / "peer_loader.py"]
    rates = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, command in programs.items():
            rates[name].append(rate_of(command + [folder, cores, options.seconds], cores))
    return {name: statistics.median(found) / cores for name, found in rates.items()}


def main():
    parser = parser_for(__doc__, types=False)
    parser.add_argument("--data", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--scale", type=int, help="pixels along each side to scale images to first")
    parser.add_argument("--each", type=int, default=60, help="images of a class to scale")
    parser.add_argument("--cores", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=10, help="of each turn")
    options = parser.parse_args()
    peers = torches(options)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, data in enumerate(options.data):
            folder = data
            if options.scale:
                folder = pathlib.Path(scratch) / str(number)
                folder.mkdir()
                python = next(iter(peers.values()), sys.executable)
                subprocess.run([python, "-c", SCALE, data, folder, str(options.scale),
                                str(options.each)], check=True)
            for cores in options.cores:
                rates = compare(folder, options, peers, cores)
                ours = rates["Tasuki"]
                for name, rate in rates.items():
                    rows.append(f"| {data} | {cores} | {name} | {rate:.0f} | {ours / rate:.2f} |")
    table = "| images | cores | loader | images/s per core | Tasuki is faster by |\n|---|---|---|---|---|\n"
    publish(heading("Random-resized crops of JPEG files", options.build, torches(options)) +
            f" Medians of {options.rounds} turns.\n\n" + table + "\n".join(rows) + "\n", options.out)


if __name__ == "__main__":
    main()
