#!/bin/bash
# The first two calls of docs/gpu-status.md on the simulated GPU, with small sizes: every part passes, and
# three files are left. Usage: gpu_check_test.sh BUILD
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ! -x $build/bench/bench_gpu_step ]]; then
  echo "skipped: built without benchmarks (TASUKI_BUILD_BENCH)"
  exit 77
fi

mkdir -p "$work/commands" "$work/mnist"
cat > "$work/commands/nvidia-smi" <<'END'
#!/bin/sh
echo "GPU 0: simulated"
END
chmod +x "$work/commands/nvidia-smi"
python3 - "$work/mnist" <<'END'
import random, struct, sys
random.seed(1)
patterns = [bytes(random.randrange(256) for _ in range(784)) for _ in range(10)]
for part, count in (("train", 300), ("t10k", 100)):
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 2051, count, 28, 28))
        file.write(b"".join(patterns[i % 10] for i in range(count)))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count)))
END

export PATH=$work/commands:$PATH TASUKI_BUILD=$build TASUKI_DATA=$work
export TASUKI_GPU_FUNCTIONS='Precisions/Gpu.[BP]*fp32:Precisions/Gpu.Linear/bf16' TASUKI_GPU_STEPS=mlp:1:bf16
export TASUKI_GPU_CHOICES=gpt:1:bf16
mapfile -t calls < <(sed -nE "s|^TASUKI_GPU_PARTS='([^']*)' .* /tmp/[ab] 330$|\1|p" "$source/docs/gpu-status.md")
((${#calls[@]} == 2)) || { echo "expected two calls of 330 s in docs/gpu-status.md, found ${#calls[@]}"; exit 1; }
# Limits grow with the time that is given: other work may run beside this.
for parts in "${calls[@]}"; do
  TASUKI_GPU_PARTS=$parts "$source/scripts/gpu_check.sh" "$work/report" 2000 --unit 16 \
    > "$work/said" 2>&1 || { cat "$work/said"; tar -xOzf "$work/report/logs.tar.gz"; exit 1; }
  tail -1 "$work/report/gpu_report.md"
  cat "$work/report/gpu_report.md" >> "$work/reports"
done
cat "$work/reports"
files=$(ls -A "$work/report" | tr '\n' ' ')
[[ $files == 'gpu_report.md logs.tar.gz steps.md ' ]] || { echo "found $files"; exit 1; }
for part in functions functions_with_own_attention momentum_losses_as_on_cpu adam_losses_as_on_cpu mnist_20_epochs \
    mnist_20_epochs_autotune accuracy_as_on_cpu steps_against_pytorch choices_of_fused_calls mnist_bf16 mnist_fp16 \
    mnist_tf32; do
  grep -q "^| $part | passed |" "$work/reports" || { echo "$part did not pass"; exit 1; }
done
grep -q "^gpt:1:bf16: .*algorithms compute it" "$work/reports" || { echo 'the choices are missing'; exit 1; }
grep -q 'libtasuki_cuda_simulated.so' "$work/reports" || { echo "its libraries are not named"; exit 1; }
