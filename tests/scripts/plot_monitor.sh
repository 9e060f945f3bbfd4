#!/bin/bash
# scripts/plot_monitor draws files as the monitor writes them, and says what is missing.
set -euo pipefail
plot=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../scripts/plot_monitor")
command -v gnuplot >/dev/null || { echo "skipped: gnuplot is missing (package gnuplot-nox)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fails_with() { # words, then a command that must fail and say them
  local said
  if said=$("${@:2}" 2>&1); then echo "did not fail: ${*:2}"; exit 1; fi
  grep -qF -- "$1" <<<"$said" || { echo "expected '$1', found: $said"; exit 1; }
}
fails_with "found none" "$plot" "$folder"

for rank in 0 10; do
  echo "seconds,cpu_percent,memory_mb,machine_cpu_percent,machine_free_mb"
  for second in 1 2 3; do echo "$second.0,$((80 + rank)).5,120.0,95.0,8000.0"; done
done | split -l 4 - "$folder/part."
mv "$folder/part.aa" "$folder/monitor.0.csv"
mv "$folder/part.ab" "$folder/monitor.10.csv"
# A rank with a GPU has more columns, and one value that its card does not measure.
{
  echo "seconds,cpu_percent,memory_mb,machine_cpu_percent,machine_free_mb,gpu_percent,gpu_memory_mb,gpu_memory_total_mb,gpu_clock_mhz,gpu_temperature_c,gpu_power_w"
  echo "1.0,10,1,2,3,99.0,5000.0,80000.0,1900.0,60.0,"
  echo "2.0,10,1,2,3,98.0,5000.0,80000.0,1910.0,61.0,300.0"
  echo "3.0,10,1,2,3,97.0,5000.0,80000.0,1920.0,62.0,310.0"
} >"$folder/monitor.2.csv"

# What would mean something to gnuplot or a shell is a name like any other.
odd="$folder/it's \"odd\" \`touch run\`"
mkdir "$odd"
cp "$folder/monitor.0.csv" "$odd"
(cd "$odd" && mkdir '< touch run' && cp monitor.0.csv '< touch run' && "$plot" '< touch run' >/dev/null)
"$plot" "$odd" "$odd/it's.svg" >/dev/null
for picture in "$odd/it's.svg" "$odd/< touch run/monitor.svg"; do grep -q "rank 0" "$picture"; done
[[ -z $(find "$folder" -name run) && ! -e run ]]
[[ $("$plot" "$folder") == "$folder/monitor.svg" ]]
for rank in 0 2 10; do grep -q "rank $rank" "$folder/monitor.svg"; done
grep -q "GPU power, W" "$folder/monitor.svg"
"$plot" "$folder" "$folder/picture.png" >/dev/null
[[ $(head -c 4 "$folder/picture.png" | tail -c 3) == PNG ]]
fails_with ".svg or .png" "$plot" "$folder" "$folder/picture.gif"
