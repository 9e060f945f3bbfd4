#!/bin/bash
# Installs Tasuki into a staging folder, moves the installed tree elsewhere, builds all examples against
# it there, by CMake's package and one by pkg-config, and runs them with 1 and 2 ranks, and an installed
# program.
#
#   run.sh SOURCE BUILD [SIMULATED_CUDA FAKE_DRIVER_FOLDER]
#
# With the last two: runs them on GPUs that the processor simulates, too.
set -euo pipefail
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work/staged cmake --install "$build" --prefix /first/prefix >/dev/null
prefix="$work/moved here 木 +ü"
mv "$work/staged/first/prefix" "$prefix"
[[ -z $(find "$work/staged" ! -type d) ]] || { echo "files were installed beside the prefix"; exit 1; }

# ccache keeps what is compiled here for the next time.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache} CCACHE_BASEDIR=$work
fi
build_project() { # source binary-folder [definitions...]
  local log=$work/log
  { cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
      "${@:3}" && cmake --build "$2"; } >"$log" 2>&1 || { cat "$log"; exit 1; }
}

# What is installed is what tasuki.hpp leads to, and nothing else.
for header in tasuki.hpp program/training_program.hpp nn/connection.hpp; do
  [[ -e $prefix/include/tasuki/$header ]] || { echo "$header was not installed"; exit 1; }
done
for header in core/hash.hpp program/device_workers.hpp tensor/cpu/cpu_backend.hpp job/launcher.hpp; do
  [[ ! -e $prefix/include/tasuki/$header ]] || { echo "$header was installed"; exit 1; }
done
cmp "$source/LICENSE" "$prefix/share/doc/tasuki/LICENSE" || { echo "LICENSE was not installed"; exit 1; }
build_project "$source/tests/install/header" "$work/header"
tr -s ' \n' ' ' <"$work/log" | grep -qF 'no build type, so header is compiled without optimisation' ||
  { cat "$work/log"; echo "nothing warns of a project without a build type"; exit 1; }

# As README has it, without a build type: the examples choose one.
build_project "$source/examples" "$work/examples"
! grep -qF 'no build type' "$work/log" || { cat "$work/log"; echo "the examples are warned"; exit 1; }
grep -q -e ' -O3 ' "$work/examples/build.ninja" || { echo "examples are not optimised"; exit 1; }
cd "$work"
"$source/tests/install/run_examples.sh" "$work/examples" "${@:3}"

# pkg-config quotes for a shell.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
version=$(pkg-config --modversion tasuki-program)
eval "c++ -std=c++20 -O1 $(pkg-config --cflags tasuki-program) '$source/examples/autoencoder/autoencoder.cpp' -o by_pkg_config \
  $(pkg-config --libs tasuki-program)"
for library in tasuki tasuki_program; do
  readelf -d by_pkg_config | grep -qF "[lib$library.so.${version%.*}]" || { echo "a program asks for another lib$library.so than ${version%.*}'s"; exit 1; }
done
LD_LIBRARY_PATH=$prefix/lib ./by_pkg_config --version | grep -qF "(Tasuki) $version" ||
  { echo "a program that was compiled with pkg-config's flags does not run"; exit 1; }

# Programs without C++.
build_project "$source/tests/install/no_cpp" "$work/no_cpp" -DCMAKE_BUILD_TYPE=Release
programs=("$work/no_cpp/in_c")
if command -v mpifort >/dev/null && mpifort --version >/dev/null 2>&1; then
  eval "mpifort $(pkg-config --variable=fortran tasuki) '$source/tests/install/no_cpp/in_fortran.f90' -o by_mpifort \
    $(pkg-config --libs tasuki)"
  programs+=("$work/no_cpp/in_fortran" ./by_mpifort)
fi
for program in "${programs[@]}"; do
  said=$(LD_LIBRARY_PATH=$prefix/lib "$program")
  [[ $said == "21 parameters" ]] || { echo "$program: expected 21 parameters, found $said"; exit 1; }
done

"$prefix/bin/train_mnist" --version
command=$("$prefix/bin/tasuki-run" -np 2 --print-command "$prefix/bin/train_mnist")
# Open MPI 5's mpirun gets them one by one.
[[ $command = *"--tune '$prefix/share/tasuki/mca-params.conf'"* || $command = *" --prtemca oob_tcp_keepalive_time "* ]] ||
  { echo "tasuki-run does not find its settings: $command"; exit 1; }
"$prefix/bin/tasuki-run" -np 2 "$prefix/bin/train_mnist" --version
empty=$(find "$prefix" -empty)
[[ -z $empty ]] || { echo "installed, but empty: $empty"; exit 1; }
# Nothing in the installed tree points back at where it was built or first installed.
if grep -rIl -e "$build" -e "$work/staged" -e /first/prefix "$prefix"; then
  echo "these files name the build folder or the first prefix"
  exit 1
fi
for binary in "$prefix"/bin/* "$prefix"/lib/libtasuki.so "$prefix"/lib/libtasuki_program.so; do
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
