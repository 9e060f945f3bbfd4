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
# The whole configuration matters only when it fails.
configuration=$(cmake --preset release) || { echo "$configuration"; exit 1; }
sed -n '/^-- Tasuki/,/docs target/ s/^-- //p' <<<"$configuration"
cmake --build --preset release --target apps

# mpirun counts cores, not hardware threads, and refuses more ranks than cores.
cores=$(lscpu -p=SOCKET,CORE | grep -v '^#' | sort -u | wc -l)
cpus=$(nproc)
slots=$((cores < cpus ? cores : cpus))
# The command that starts N ranks on this machine, as in README.md.
launch() {
  echo "mpirun -np $1$( (($1 <= slots)) || echo " --oversubscribe")"
}
# What root must type first.
before=()
((EUID != 0)) || before=("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")

echo
# Without --bind-to none, mpirun would bind each of two ranks to one core.
job="$(launch 2) --bind-to none build/apps/train_mnist --epoch 1 --out result/quickstart"
for line in "${before[@]}" "$job"; do
  echo "\$ $line"
  eval "$line"
done

cat <<END

The results are in the folder that is named above, in $root (log: the table as JSON).
To train on this machine with 4 ranks, for all 20 epochs, from $root:
$(printf '  %s\n' "${before[@]}" "$(launch 4) build/apps/train_mnist")
Other data: scripts/get_data.sh; several machines: hostfiles/README.md; all flags: --help
END
