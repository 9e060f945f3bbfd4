#!/bin/bash
# Configures projects that have Tasuki as a part, by add_subdirectory and by FetchContent, and compiles
# the source of one against Tasuki's headers.
#
#   part.sh SOURCE
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { [[ ! -e $work/log ]] || cat "$work/log"; echo "part: $*"; exit 1; }
git -C "$source" rev-parse 2>"$work/log" ||
  { cat "$work/log"; echo "skipped: $source is not a git checkout, so what belongs to it is unknown"; exit 77; }

configure() { # project, Tasuki, its place in the build folder
  cmake -S "$1" -B "$1/build" -G Ninja -DTASUKI="$2" -DTASUKI_CUDA=OFF >"$work/log" 2>&1 ||
    fail "it cannot be configured with $2"
  ninja -C "$1/build" -t targets all >"$work/targets"
  for absent in train_mnist tasuki-run tasuki_programs test_core bench_model_step; do
    ! grep -q "\b$absent\b" "$work/targets" || fail "it has Tasuki's target $absent"
  done
  ! grep -q 'file(INSTALL' "$1"/build/$3/cmake_install.cmake || fail "it installs Tasuki"
}

# A checkout of another project, whose commit is not Tasuki's.
project=$work/project
cp -r "$source/tests/install/part" "$project"
git -C "$project" init -q
git -C "$project" -c user.name=part -c user.email=part@localhost commit -q --allow-empty -m Begin
(cd "$source" && git ls-files -z | tar --null --ignore-failed-read -T - -czf "$work/tasuki.tar.gz") 2>"$work/log"
configure "$project" "$work/tasuki.tar.gz" _deps/tasuki-build
ninja -C "$project/build" _deps/tasuki-build/version.cpp >"$work/log" 2>&1 || fail "it has no version"
grep -q 'return "[0-9.]*"' "$project/build/_deps/tasuki-build/version.cpp" ||
  fail "Tasuki has the commit of the project: $(<"$project/build/_deps/tasuki-build/version.cpp")"

configure "$project" "$source" tasuki
# Without Tasuki's library, which takes minutes: its headers, and the project's own source.
ninja -C "$project/build" CMakeFiles/part.dir/part.cpp.o >"$work/log" 2>&1 || fail "its source does not compile"
! grep -q -e "-I$source[ \"]" "$project/build/compile_commands.json" ||
  fail "Tasuki's checkout is on an include path"
# Nor do programs that it asks for bring rules of their own.
cmake "$project/build" -DTASUKI_BUILD_PROGRAMS=ON -DTASUKI_DEBIAN=ON >"$work/log" 2>&1 || fail "it cannot be configured with Tasuki's programs"
! grep -r 'file(INSTALL' --include cmake_install.cmake "$project/build/tasuki" >"$work/log" || fail "it installs Tasuki"
[[ ! -e $project/build/CPackConfig.cmake ]] || fail "it packs Tasuki"
