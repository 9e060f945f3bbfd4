#!/bin/bash
# Checks the files that Tasuki reads and writes for other programs with those programs
# (tests/clients/check.py), and prints the table of docs/clients.md. Fails if a check does.
#
#   scripts/check_clients.sh [--build DIR] [NAME...]     # default: build, all programs
#
# NAME: h5py, safetensors, torchvision, transformers, onnx, onnxruntime, tensorboard, chainer. pip
# installs the programs in a virtual environment, DIR/clients (6 GB, most of it PyTorch).
# check_chainer.sh installs Chainer, which needs an older NumPy, in another one. DIR must be built with
# tests, as ./test.sh does. Not part of ctest, which needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/usage.sh
take_flags --build -- "$@"

build=build
if [[ "${1:-}" == --build ]]; then
  build=${2:?--build needs a folder}
  shift 2
fi
[[ -x $build/apps/tasuki-export ]] || {
  echo "check_clients: no $build/apps/tasuki-export; build it first (cmake --build $build)" >&2
  exit 64
}

venv=$build/clients
programs=(h5py safetensors torch torchvision transformers onnx onnxruntime tensorboard)
if ! "$venv/bin/python" -c "import $(IFS=,; echo "${programs[*]}")" 2> "$build/clients.log"; then
  echo "installing the programs in $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "${programs[@]}"
fi
exec "$venv/bin/python" -W ignore tests/clients/check.py --build "$build" "$@"
