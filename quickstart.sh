#!/bin/bash
# From a fresh Debian 12 machine to a trained network: installs the packages that are missing, builds
# Tasuki into build/ and trains a perceptron on Fashion-MNIST for one epoch with two ranks.
#
#   ./quickstart.sh
#
# Running it again builds only what changed and trains once more, into another folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
source scripts/usage.sh
take_flags -- "$@"
(($# == 0)) || refuse "no arguments expected, found '$*'"

scripts/dependencies.sh build
# Tests and benchmarks need more packages. A folder that has them, from test.sh, keeps them.
options=()
[[ -e build/build.ninja ]] || options=(-DTASUKI_BUILD_TESTS=OFF -DTASUKI_BUILD_BENCH=OFF)
# The whole configuration matters only when it fails.
configuration=$(cmake --preset release "${options[@]}") || { echo "$configuration"; exit 1; }
sed -n '/^-- Tasuki/,/docs target/ s/^-- //p' <<<"$configuration"
cmake --build --preset release --target tasuki_programs

echo
job="build/apps/tasuki-run -np 2 build/apps/train_mnist --epoch 1 --out result/quickstart"
echo "\$ $job"
$job

cat <<END

The results are in the folder that is named above, in $root (log: the table as JSON).
To train on this machine with 4 ranks, for all 20 epochs, from $root:
  build/apps/tasuki-run -np 4 build/apps/train_mnist
Other data: scripts/get_data.sh; several machines: hostfiles/README.md; all flags: --help all
END
