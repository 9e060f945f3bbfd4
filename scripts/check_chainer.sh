#!/bin/bash
# Checks that weights of all programs load in Chainer, and Chainer's in the programs, with the same
# results, and layers beside (tests/chainer/check.py). One line for each case, with the largest
# difference; fails at 1e-5.
#
#   scripts/check_chainer.sh [--build DIR] [CASE...]     # default: build, all cases
#
# Chainer 7.8.1 comes from PyPI into a virtual environment of its own, DIR/chainer, which needs
# Python 3.8 to 3.11. Not part of ctest, which needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/usage.sh
take_flags --build -- "$@"

build=build
if [[ "${1:-}" == --build ]]; then
  build=${2:?--build needs a folder}
  shift 2
fi
for needed in apps/train_mnist tests/chainer/chainer_pass; do
  [[ -x $build/$needed ]] || {
    echo "check_chainer: no $build/$needed; build it first (cmake --build $build)" >&2
    exit 64
  }
done

venv=$build/chainer
if ! "$venv/bin/python" -c 'import chainer' 2> "$build/chainer.log"; then
  python3 -c 'import sys; sys.exit(not (3, 8) <= sys.version_info[:2] <= (3, 11))' || {
    echo "check_chainer: Chainer 7.8.1 needs Python 3.8 to 3.11, found $(python3 --version)" >&2
    exit 69
  }
  echo "installing Chainer in $venv" >&2
  # Chainer uses names that NumPy 1.24 removed, and its setup.py needs an older setuptools.
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'numpy<1.24' 'setuptools<65' wheel
  "$venv/bin/pip" install --quiet --no-build-isolation chainer==7.8.1
fi
exec "$venv/bin/python" -W ignore tests/chainer/check.py --build "$build" "$@"
