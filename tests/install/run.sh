#!/bin/bash
# Installs Tasuki, moves the installed tree elsewhere, builds examples/my_training against it there
# and runs that and an installed program.
#
#   run.sh SOURCE BUILD
set -euo pipefail
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >/dev/null
prefix="$work/moved here"
mv "$work/installed" "$prefix"

build_project() { # source binary-folder [definitions...]
  local log=$work/log
  { cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
      "${@:3}" && cmake --build "$2"; } >"$log" 2>&1 || { cat "$log"; exit 1; }
}

# The headers include nothing that was not installed.
(cd "$prefix/include" && find tasuki -name '*.hpp' -printf '#include "%p"\n' | sort) >"$work/all.cpp"
build_project "$source/tests/install/headers" "$work/headers" -DSOURCE="$work/all.cpp"

build_project "$source/examples" "$work/example"
cd "$work"
launch=(mpirun -np 2 --oversubscribe --bind-to none)
"${launch[@]}" example/my_training | tee table
grep -q '^double: ' table
# Five epochs of a learnable problem: the last line's accuracy.
awk 'END { if ($1 != 5 || $4 < 0.9) { print "expected epoch 5 and an accuracy of 0.9"; exit 1 } }' table
[[ -s result/log ]]
"$source/tests/install/run_examples.sh" example

"$prefix/bin/train_mnist" --version
# Nothing in the installed tree points back at where it was built or first installed.
if grep -rIl -e "$build" -e "$work/installed" "$prefix"; then
  echo "these files name the build folder or the first prefix"
  exit 1
fi
for binary in "$prefix"/bin/* "$prefix"/lib/libtasuki.so; do
  ldd "$binary" | grep -F "not found" && { echo "$binary misses libraries"; exit 1; }
  ! readelf -d "$binary" | grep -E 'R(UN)?PATH' | grep -F "$build" ||
    { echo "$binary looks for libraries in $build"; exit 1; }
done
# The CUDA backend is found beside libtasuki.so, and the driver is never linked.
if [[ -e $build/libtasuki_cuda.so ]]; then
  backend=$prefix/lib/libtasuki_cuda.so
  [[ -e $backend ]] || { echo "libtasuki_cuda.so was not installed"; exit 1; }
  if readelf -d "$backend" | grep -E 'NEEDED.*lib(cuda|nvidia-ml)\.so' ||
     readelf -d "$backend" | grep -E 'R(UN)?PATH' | grep -F "$build"; then
    echo "$backend is linked to the driver, or looks for libraries in $build"
    exit 1
  fi
fi
