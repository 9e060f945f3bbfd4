"""The functions of NVIDIA's libraries that a shared library exports or needs."""
import re
import subprocess


def names(path, which, prefix):
    said = subprocess.run(["nm", "-D", which, path], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = (line.split()[-1].split("@")[0] for line in said.splitlines() if line)
    return {name for name in found if re.fullmatch(rf"{prefix}[A-Z]\w*", name)}


def exported(path, prefix):
    # cuBLASLt has one of each of its functions for each combination of types, which no header declares.
    return {name for name in names(path, "--defined-only", prefix)
            if not re.match(r"cublasLt([A-Z]{3}M|E[45]m|LegacyGemm)", name)}


def needed(path, prefix):
    return names(path, "--undefined-only", prefix)
