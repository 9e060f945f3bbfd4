#!/bin/bash
# What of CUDA is missing or too old is not an error for TASUKI_CUDA=AUTO, and one line for ON: with
# folders that are made to look like CUDA, cuDNN and NCCL. Usage: cuda_parts_test.sh
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/said"; echo "cuda_parts_test: $*" >&2; exit 1; }

mkdir -p "$work/project" "$work"/cuda/{bin,include,lib}
cat > "$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parts LANGUAGES C)
list(APPEND CMAKE_MODULE_PATH $source/cmake)
include(TasukiCuda)
message(STATUS "CUDA is \${TASUKI_CUDA_STATUS}.")
END

# A fresh look at the folders alone.
configure() {
  cmake -S "$work/project" -B "$work/build" -U 'TASUKI_*' -U 'CUDNN_*' -U 'NCCL_*' -U 'CUBLASLT_*' \
    -U 'CUDA_*' -DTASUKI_CUDA="$1" -DTASUKI_CUDA_FOLDERS="$work/cuda;$work/later" \
    -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF \
    > "$work/said" 2>&1
}
expect_without() {
  configure AUTO || fail "AUTO was an error, instead of off: $1"
  grep -qF "CUDA is off: $1" "$work/said" || fail "AUTO did not say: off: $1"
  ! configure ON || fail "ON was no error: $1"
  [ "$(grep -cE 'CMake Error' "$work/said")" -eq 1 ] || fail "ON gave more errors than one"
  # CMake breaks long lines.
  tr -s '\n ' ' ' < "$work/said" | grep -qF "TASUKI_CUDA=ON: $1" || fail "ON did not say: $1"
}

nvcc() {  # version, what it does instead of compiling
  printf '#!/bin/sh\n[ "$1" = --version ] && echo "%s" && exit 0\n%s\n' "$1" "$2" \
    > "$work/cuda/bin/nvcc"
  chmod +x "$work/cuda/bin/nvcc"
}
header() {  # name, prefix of macros, names of macros and numbers
  local name=$1 prefix=$2
  shift 2
  printf "#define ${prefix}_%s %s\n" "$@" > "$work/cuda/include/$name"
}
library() { : > "$work/cuda/lib/$1"; }

# The compiler for C is found in the system's folders, once.
cmake -S "$work/project" -B "$work/build" -DTASUKI_CUDA=OFF > "$work/said" 2>&1 || fail "no compiler"
grep -qF "CUDA is off." "$work/said" || fail "OFF is not off"
expect_without "nvcc was not found"
nvcc "Cuda compilation tools, release 11.8, V11.8.89" "exit 1"
expect_without "CUDA 12 or 13 expected, found 11.8 ($work/cuda/bin/nvcc"
nvcc "nothing of the kind" "exit 1"
expect_without "CUDA 12 or 13 expected, found no version ($work/cuda/bin/nvcc"
nvcc "Cuda compilation tools, release 12.4, V12.4.131" \
  'echo "nvcc fatal : unsupported host compiler" >&2; exit 1'
expect_without "cuDNN 9 was not found (set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY)"
: > "$work/cuda/include/cudnn.h"
expect_without "cuDNN 9 was not found"
library libcudnn.so
header cudnn_version.h CUDNN MAJOR 8 MINOR 9 PATCHLEVEL 7
expect_without "cuDNN 9 expected, found 8.9.7 in $work/cuda/include"
header cudnn_version.h CUDNN MAJOR 9 MINOR 1 PATCHLEVEL 0
expect_without "NCCL was not found (set NCCL_INCLUDE_DIR and NCCL_LIBRARY)"
header nccl.h NCCL MAJOR 2 MINOR 18 PATCH 5
expect_without "NCCL was not found"
library libnccl.so.2
expect_without "NCCL 2.19 or later expected, found 2.18.5 in $work/cuda/include"
header nccl.h NCCL MAJOR 2 MINOR 28 PATCH 9
expect_without "cuBLASLt was not found"
library libcublasLt.so.12
expect_without "$work/cuda/bin/nvcc cannot compile for 90: nvcc fatal : unsupported host compiler"

# Header and library come from one folder, though the later one has the library's better name.
mkdir -p "$work"/later/{include,lib}
: > "$work/later/lib/libnccl.so"
configure AUTO
grep -qF "NCCL_LIBRARY:FILEPATH=$work/cuda/lib/libnccl.so.2" "$work/build/CMakeCache.txt" ||
  fail "another folder's NCCL was taken"
echo "cuda_parts_test: passed"
