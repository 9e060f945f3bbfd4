#!/bin/bash
# From a fresh Debian 12 machine to a trained network: installs the packages that are missing, builds
# Tasuki into build/ and trains a perceptron on Fashion-MNIST for one epoch with two ranks.
# Running it again builds only what changed and writes into another folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"

scripts/dependencies.sh build
# The whole configuration matters only when it fails.
configuration=$(cmake --preset release) || { echo "$configuration"; exit 1; }
sed -n '/^-- Tasuki/,/docs target/ s/^-- //p' <<<"$configuration"
cmake --build --preset release --target apps

# mpirun counts cores, not hardware threads, and refuses more ranks than that by itself.
cores=$(lscpu -p=SOCKET,CORE | grep -v '^#' | sort -u | wc -l)
cpus=$(nproc)
slots=$((cores < cpus ? cores : cpus))
# The words that start N ranks on this machine.
launch() {
  local words="mpirun -np $1 --bind-to none"
  (($1 <= slots)) || words+=" --oversubscribe"
  ((EUID != 0)) || words="OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 $words"
  echo "$words"
}

out=result/quickstart
for ((n = 2; ; ++n)); do
  [[ -e $out ]] || break
  out=result/quickstart-$n
done
job="$(launch 2) build/apps/train_mnist --epoch 1 --out $out"
echo
echo "\$ $job"
eval "$job"

cat <<END

The results are in $root/$out (log: the table as JSON).
To train on this machine with 4 ranks, for all 20 epochs, from $root:
  $(launch 4) build/apps/train_mnist
Other data: scripts/get_data.sh; several machines: hostfiles/README.md; all flags: --help
END
