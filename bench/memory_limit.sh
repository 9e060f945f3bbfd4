#!/bin/bash
# A GPT that does not fit into a machine's memory trains on two machines with --shard weights.
#
#   bench/memory_limit.sh [BUILD]       as root, with control groups of version 1; a minute
#
# Two nodes in network namespaces, each with one rank in a control group of 480 MiB. The weights (151
# MB), their gradients and Adam's states need 1.2 times that. Runs: --shard none, which fails; weights,
# which saves on the way and evaluates at the end of its epoch; and weights again, from the middle.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/limited.sh" <<'EOF'
# /sys of the node has no control groups yet.
groups=/sys/fs/cgroup
[[ -d $groups/memory ]] || {
  mount -t tmpfs none $groups && mkdir $groups/memory && mount -t cgroup -o memory none $groups/memory
} || exit
own=$groups/memory/tasuki-limit-$OMPI_COMM_WORLD_RANK
mkdir -p "$own"
echo $((480 << 20)) > "$own/memory.limit_in_bytes"
echo $$ > "$own/tasks"
code=0
"$@" || code=$?
echo $$ > $groups/memory/tasks
rmdir "$own"
exit $code
EOF
head -c 10000 /dev/urandom | base64 | head -c 9000 > "$work/text"
train() {
  echo "== $*"
  tests/cluster/run.sh --slots 1,1 -- bash "$work/limited.sh" "$build/apps/train_lm" --data "$work/text" \
    --layers 12 --width 512 --heads 8 --context 64 --batchsize 1 --threads 1 --test-examples 8 --epoch 1 \
    --probe off --quiet --out "$work/run" --log-every 20 "$@" 2>&1 | grep "out of memory" || true
}
train --shard none
train --shard weights --checkpoint-every 20it --max-iterations 40
train --shard weights --resume "$work/run"
grep -o '"validation/main/bits_per_byte": [0-9.]*' "$work/run/log"
find "$work/run/checkpoints" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort
