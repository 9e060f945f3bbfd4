#!/bin/bash
# The bundle works away from its build: unpacked elsewhere by Python, with an empty environment and
# without this machine's Open MPI, two ranks train, and gpu_check.sh runs on a simulated GPU.
# Usage: bundle_test.sh BUILD
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "bundle_test: $*" >&2; exit 1; }

if ! command -v orted >/dev/null; then
  refused=$("$source/scripts/bundle.sh" "$build" "$work/bundle.tar.xz" 2>&1) &&
    fail "bundle.sh takes another MPI than Open MPI 4"
  echo "skipped: ${refused#bundle.sh: }"
  exit 77
fi

# All is built. To build again, after an edit, would take away programs that other tests are running.
mkdir "$work/elsewhere" "$work/commands" "$work/built"
printf '#!/bin/sh\n[ "$1" = --build ] || exec "%s" "$@"\n' "$(command -v cmake)" > "$work/built/cmake"
chmod +x "$work/built/cmake"
PATH=$work/built:$PATH XZ_OPT=-0 "$source/scripts/bundle.sh" "$build" "$work/bundle.tar.xz"
PATH=$work/commands "$(python3 -c 'import sys; print(sys.executable)')" -c '
import sys, tarfile
tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$work/bundle.tar.xz" "$work/elsewhere"
for program in train_mnist tasuki-bench-allreduce bench_gpu_step test_gpu test_gpu_communicators \
    test_gpu_training; do
  [ -x "$work/elsewhere/tasuki/bin/$program" ] || fail "the bundle has no $program"
done
paths=$(find "$work/elsewhere/tasuki" -type f -exec readelf -d {} + 2>/dev/null |
  grep -E '\((RPATH|RUNPATH)\)' || true)
[ -z "$paths" ] || fail "libraries are looked for in folders of this machine: $paths"

cmp "$source/LICENSE" "$work/elsewhere/tasuki/LICENSE" || fail "the bundle lacks LICENSE"
python3 - "$work/elsewhere/tasuki" <<'PYTHON' || fail "notices of others are missing"
"""Every file of others is listed with a package, and every listed package has its notices."""
import pathlib, re, shutil, sys
root = pathlib.Path(sys.argv[1])
head, *parts = re.split(r"^={80}\n(.+)\n={80}\n", (root / "THIRD_PARTY_NOTICES").read_text(),
                        flags=re.MULTILINE)
texts = {name: text for title, text in zip(parts[::2], parts[1::2]) if title.startswith("Notices of ")
         for name in title.removeprefix("Notices of ").split(", ")}
table = head.partition("\nThe packages' sources")[0]
listed = dict(re.findall(r"^(\S+) +(\S+) \S+$", table, re.MULTILINE))
packed = [str(path.relative_to(root)) for folder in ("lib", "openmpi/bin", "openmpi/components", "pmix")
          for path in root.glob(f"{folder}/**/*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
          and not path.name.startswith("libtasuki")]
assert len(packed) > 40, packed
missing = sorted(set(packed) - set(listed))
assert not missing, f"not listed: {missing}"
assert "nlohmann_json" in listed
contains_cuda = (root / "lib/libtasuki_cuda.so").exists()
assert ("contains NVIDIA's CUDA runtime" in table) == contains_cuda, table
if shutil.which("dpkg-query"):
    without = sorted(name for name, package in listed.items()
                     if "opyright" not in texts.get(package, ""))
    assert not without, f"without notices: {without}"
PYTHON

# What a program finds besides its bundle: a shell.
ln -s "$(command -v sh)" "$work/commands/sh"
python3 - "$work/data" <<'PYTHON'
import os, struct, sys
folder = sys.argv[1]
os.makedirs(folder)
for part, count in (("train", 400), ("t10k", 100)):
    labels = bytes(i % 10 for i in range(count))
    images = b"".join(bytes((i * 7 + label * 25) % 256 for i in range(784)) for label in labels)
    with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 2051, count, 28, 28) + images)
    with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 2049, count) + labels)
PYTHON

# In a mount namespace of its own the system's Open MPI can be hidden; where that is not allowed the
# environment alone keeps it away.
hide='for folder in "$@"; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done'
folders=(/usr/lib/*/openmpi /usr/lib/*/pmix2 /usr/share/openmpi /etc/openmpi)
inside=(env)
if unshare -m sh -c "$hide" hide "${folders[@]}" 2>/dev/null; then
  inside=(unshare -m sh -c "$hide; shift \$#; exec \$command" hide)
fi

cd "$work/elsewhere"
run() {  # words of a command without spaces
  local command="/usr/bin/env -i PATH=$work/commands HOME=$work OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 $*"
  if [ "${inside[0]}" = unshare ]; then
    command=$command "${inside[@]}" "${folders[@]}"
  else
    $command
  fi
}

run tasuki/bin/mpirun -np 2 --bind-to none --oversubscribe tasuki/bin/train_mnist \
  --data "$work/data" --unit 32 --epoch 1 --out "$work/result" > "$work/said" 2>&1 ||
  { cat "$work/said"; fail "two ranks did not train"; }
grep -q 'COMM_WORLD): 2' "$work/said" || { cat "$work/said"; fail "there were no two ranks"; }
[ -s "$work/result/log" ] || fail "no log was written"

# The same with tasuki-run, which finds the bundle's mpirun and its settings.
run tasuki/bin/tasuki-run -np 2 --verbose tasuki/bin/train_mnist --data "$work/data" --unit 32 \
  --epoch 1 --out "$work/supervised" > "$work/said" 2>&1 ||
  { cat "$work/said"; fail "two ranks did not train under tasuki-run"; }
grep -q 'mpirun -np 2 --tune .*/share/tasuki/mca-params.conf' "$work/said" ||
  { cat "$work/said"; fail "tasuki-run did not find its settings"; }
[ -s "$work/supervised/incidents.jsonl" ] || fail "tasuki-run did not know the folder"

# Nothing but the C library comes from outside the bundle.
outside=$(run LD_DEBUG=libs LD_DEBUG_OUTPUT="$work/loads" tasuki/bin/train_mnist --version \
  > /dev/null && cat "$work"/loads.* | sed -n 's/.*calling init: //p' | grep -v "^$work" |
  grep -vE '/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|util)\.so[^/]*)$' || true)
[ -z "$outside" ] || fail "loaded from outside the bundle: $outside"

# The check of GPUs says so where there is none, and runs on a simulated one.
if [ -e "$build/libtasuki_cuda.so" ] && [ ! -e /dev/nvidiactl ]; then
  code=0
  tasuki/scripts/gpu_check.sh "$work/report" > "$work/said" 2>&1 || code=$?
  { [ $code -eq 77 ] && grep -q 'no GPU can be used' "$work/said"; } ||
    { cat "$work/said"; fail "gpu_check.sh ended with $code without a GPU"; }
fi
simulated=$build/tests/support/simulated_cuda/libtasuki_cuda_simulated.so
if [ -e "$simulated" ]; then
  mkdir "$work/mnist"
  cp "$work"/data/* "$work/mnist"
  TASUKI_CUDA_LIBRARY=$simulated LD_LIBRARY_PATH=$build/tests/tensor/fake_driver TASUKI_DATA=$work \
    TASUKI_GPU_PARTS='^functions|^mnist_bf16' TASUKI_GPU_FUNCTIONS='*.Bias/fp32' OMP_NUM_THREADS=1 \
    tasuki/scripts/gpu_check.sh "$work/report" 2000 --unit 32 > "$work/said" 2>&1 ||
    { cat "$work/said"; fail "gpu_check.sh did not pass on the simulated GPU"; }
fi
echo "bundle_test: $(tail -1 "$work/said")"
