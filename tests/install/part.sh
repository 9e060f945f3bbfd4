#!/bin/bash
# Configures a project that has Tasuki as a part, and compiles its source against Tasuki's headers.
#
#   part.sh SOURCE
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { [[ ! -e $work/log ]] || cat "$work/log"; echo "part: $*"; exit 1; }

cmake -S "$source/tests/install/part" -B "$work/build" -G Ninja -DTASUKI="$source" -DTASUKI_CUDA=OFF \
  >"$work/log" 2>&1 || fail "it cannot be configured"
ninja -C "$work/build" -t targets all >"$work/targets"
for absent in train_mnist tasuki-run tasuki_programs test_core bench_model_step; do
  ! grep -q "\b$absent\b" "$work/targets" || fail "it has Tasuki's target $absent"
done
# Without Tasuki's library, which takes minutes: its headers, and the project's own source.
ninja -C "$work/build" CMakeFiles/part.dir/part.cpp.o >"$work/log" 2>&1 || fail "its source does not compile"
! grep -q -e "-I$source[ \"]" "$work/build/compile_commands.json" ||
  fail "Tasuki's checkout is on an include path"
# Nor do programs that it asks for bring rules of their own.
cmake -S "$source/tests/install/part" -B "$work/build" -DTASUKI_BUILD_PROGRAMS=ON -DTASUKI_DEBIAN=ON \
  >"$work/log" 2>&1 || fail "it cannot be configured with Tasuki's programs"
! grep -r 'file(INSTALL' --include cmake_install.cmake "$work/build/tasuki" >"$work/log" || fail "it installs Tasuki"
[[ ! -e $work/build/CPackConfig.cmake ]] || fail "it packs Tasuki"
