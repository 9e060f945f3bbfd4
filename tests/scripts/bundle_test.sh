#!/bin/bash
# The bundle works away from its build: unpacked elsewhere, with an empty environment and without
# this machine's Open MPI, two ranks train. Usage: bundle_test.sh BUILD
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "bundle_test: $*" >&2; exit 1; }

XZ_OPT=-0 "$source/scripts/bundle.sh" "$build" "$work/bundle.tar.xz"
mkdir "$work/elsewhere" "$work/commands"
tar -xJf "$work/bundle.tar.xz" -C "$work/elsewhere"

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

# The check of GPUs says so where there is none.
if [ -e "$build/libtasuki_cuda.so" ] && [ ! -e /dev/nvidiactl ]; then
  code=0
  tasuki/scripts/gpu_check.sh "$work/report" > "$work/said" 2>&1 || code=$?
  { [ $code -eq 77 ] && grep -q 'no GPU can be used' "$work/said"; } ||
    { cat "$work/said"; fail "gpu_check.sh ended with $code without a GPU"; }
fi
echo "bundle_test: $(tail -1 "$work/said")"
