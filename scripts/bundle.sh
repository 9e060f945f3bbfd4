#!/bin/bash
# Builds Tasuki and packs it into one relocatable archive, for machines without a shared file system
# and without the packages that Tasuki needs:
#
#   scripts/bundle.sh [BUILD = build] [OUTPUT = BUILD/tasuki-<processor>.tar.xz]
#
# It contains the programs, the tests and benchmarks that need a GPU (gpu_check.sh runs them), the
# shared libraries that they need (except the C library, the driver, CUDA, cuDNN and NCCL), and Open
# MPI with mpirun. THIRD_PARTY_NOTICES has the copyright notices of what is not Tasuki's, from the
# Debian packages that the files belong to (third_party_notices.py). BUILD is configured for a
# release if it does not exist, and tests and benchmarks are switched on in it. The archive can be
# unpacked anywhere, by tar or, without xz, by Python:
#
#   python3 -c "import tarfile; tarfile.open('tasuki-x86_64.tar.xz').extractall('/tmp')"
#
# bin/ has a script for each program:
#
#   tasuki/bin/tasuki-run -np 2 tasuki/bin/train_mnist
#
# CUDA, cuDNN and NCCL are then taken from the loader's path, CUDA_HOME, or the folders of NVIDIA's
# Python wheels (libtasuki looks for them if --gpu is given). XZ_OPT is passed to xz.
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/usage.sh"
take_flags -- "$@"
(($# <= 2)) || refuse "BUILD and OUTPUT expected, found '$*'"
source=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
build=$(realpath -m "${1:-$source/build}")
output=$(realpath -m "${2:-$build/tasuki-$(uname -m).tar.xz}")
largest=$((30 * 1024 * 1024))  # bytes

say() { echo "bundle.sh: $*" >&2; }
fail() { say "$*"; exit 1; }
for tool in xz strip ldd readelf python3; do
  command -v "$tool" >/dev/null ||
    fail "$tool is needed (packages xz-utils, binutils, libc-bin, python3)"
done
# With Debian 12's C library, bundles also run on most other systems.
command -v orted >/dev/null ||
  fail "bundles are made with Open MPI 4, as Debian 12 has it; found $(mpirun --version | head -n 1)"

# --- the build ---
configured() { grep -q "^$1:BOOL=ON$" "$build/CMakeCache.txt" 2>/dev/null; }
if ! configured TASUKI_BUILD_TESTS || ! configured TASUKI_BUILD_BENCH; then
  [ -e "$build/CMakeCache.txt" ] || [ -z "$(ls -A "$build" 2>/dev/null)" ] ||
    fail "$build is not a build of Tasuki, and not empty"
  preset=(--preset release)
  [ ! -e "$build/CMakeCache.txt" ] || preset=()
  (cd "$source" && cmake "${preset[@]}" -B "$build" -DTASUKI_BUILD_TESTS=ON \
    -DTASUKI_BUILD_BENCH=ON) >&2 ||
    fail "CMake failed; scripts/dependencies.sh test installs what tests need"
fi
cmake --build "$build" --target tasuki_programs bench_gpu_step test_gpu test_gpu_communicators \
  test_gpu_training >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/tasuki
mkdir -p "$root"/{bin,libexec,lib,scripts,share/tasuki,bench,docs,openmpi/bin,openmpi/etc,openmpi/share,pmix/share}

# What every machine has, or has in a version for its GPU.
is_base() {
  case $1 in
    linux-vdso* | ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so*) ;;
    libresolv.so* | libutil.so*) ;;
    libcuda* | libcublas* | libcudnn* | libnccl* | libnvrtc* | libnvidia* | libnvJitLink*) ;;
    *) return 1 ;;
  esac
}

# Lines "name path" of the libraries that a file needs, directly or not.
needs() {
  LD_LIBRARY_PATH=$build:${LD_LIBRARY_PATH:-} ldd "$1" 2>/dev/null |
    awk '/=> \// { print $1, $3 } /=> not found/ { print $1, "-" }'
}

# Lines "name in the bundle, tab, path here" of what is not Tasuki's, for its notices.
others=$work/others
note_origin() {  # file, its name in the bundle
  [[ $1 == "$build"/* ]] || printf '%s\t%s\n' "${2#"$root/"}" "$1" >> "$others"
}

add_file() {  # file, folder [name]
  local made=$2/${3:-$(basename "$1")}
  note_origin "$1" "$made"
  cp -L "$1" "$made"
  chmod u+w "$made"
  strip --strip-unneeded "$made"
}

add_libraries_of() {
  local name path
  while read -r name path; do
    is_base "$name" && continue
    [ "$path" != - ] || fail "$1 needs $name, which is not on this machine"
    [ -e "$root/lib/$name" ] || add_file "$path" "$root/lib" "$name"
  done < <(needs "$1")
}

# --- programs, tests, benchmarks ---
find_programs() {
  find "$build/apps" "$build/bench" -maxdepth 2 -type f -executable ! -name '*.so*' ! -path '*/CMakeFiles/*' 2>/dev/null
  find "$build/tests/gpu" -maxdepth 2 -type f -executable -name 'test_gpu*' 2>/dev/null || true
}
while read -r program; do
  add_file "$program" "$root/libexec"
  add_libraries_of "$program"
done < <(find_programs)
if [ -e "$build/libtasuki_cuda.so" ]; then
  add_file "$build/libtasuki_cuda.so" "$root/lib"
  add_libraries_of "$build/libtasuki_cuda.so"
else
  say "$build has no libtasuki_cuda.so: the bundle will compute on CPUs only"
fi

# libhdf5 needs libraries for the network, which would take half of the bundle's size.
if [ -e "$build/libtasuki_hdf5.so" ]; then
  say "the bundle reads no HDF5 files: libtasuki_hdf5.so is left out, because libhdf5 needs libcurl and what that needs"
fi

if [ -e "$build/bench/libtasuki_kernel_trace.so" ]; then
  add_file "$build/bench/libtasuki_kernel_trace.so" "$root/lib"
fi

# Loaded for the first ONNX model.
if [ -e "$build/libtasuki_onnx.so" ]; then
  add_file "$build/libtasuki_onnx.so" "$root/lib"
  add_libraries_of "$build/libtasuki_onnx.so"
fi

# --- Open MPI: its programs, the components that need nothing special, what they print ---
path_of() { ompi_info --path "$1" --parsable | cut -d: -f3- | head -1; }
components=$(path_of pkglibdir)
for tool in mpirun orted; do
  add_file "$(path_of bindir)/$tool" "$root/openmpi/bin"
  add_libraries_of "$(path_of bindir)/$tool"
done
mkdir -p "$root/openmpi/components"
for component in "$components"/*.so; do
  # Libraries of special networks are large and useful only where they are installed.
  needs "$component" |
    grep -qE '^lib(ucp|uct|ucs|fabric|ibverbs|rdmacm|psm|psm2|torque|lustreapi|pvfs2|cuda)|-$' && continue
  add_file "$component" "$root/openmpi/components"
  add_libraries_of "$component"
done
cp -r "$(path_of pkgdatadir)/." "$root/openmpi/share/"
note_origin "$(path_of pkgdatadir)" openmpi/share
cp -rL "$(path_of sysconfdir)/." "$root/openmpi/etc/" 2>/dev/null || true
note_origin "$(path_of sysconfdir)" openmpi/etc
ln -s ../lib "$root/openmpi/lib"

# PMIx, by which mpirun and its ranks find each other, has its components beside it.
pmix=$(needs "$components/mca_pmix_ext3x.so" | awk '$1 ~ /^libpmix/ { print $2; exit }')
if [ -n "$pmix" ]; then
  pmix=$(dirname "$(realpath "$pmix")")
  mkdir -p "$root/pmix/components"
  for component in "$pmix"/pmix/*.so; do
    [ -e "$component" ] || continue
    add_file "$component" "$root/pmix/components"
    add_libraries_of "$component"
  done
  if [ -d "$pmix/../share/pmix" ]; then
    cp -r "$pmix/../share/pmix/." "$root/pmix/share/"
    note_origin "$(realpath "$pmix/../share/pmix")" pmix/share
  fi
fi

# Of hwloc's plugins the one that finds PCI devices; the others look for displays and the like.
hwloc=$(needs "$root/libexec/train_mnist" | awk '$1 ~ /^libhwloc/ { print $2; exit }')
mkdir -p "$root/lib/hwloc"
for plugin in "$(dirname "$hwloc")"/hwloc/hwloc_pci.so; do
  [ -e "$plugin" ] || continue
  add_file "$plugin" "$root/lib/hwloc"
  add_libraries_of "$plugin"
done

# --- one script for each program, without a command from outside ---
for program in "$root"/libexec/* "$root"/openmpi/bin/*; do
  name=$(basename "$program")
  cat > "$root/bin/$name" <<'WRAPPER'
#!/bin/sh
# Runs the program of this name from the bundle that this file is in, with all flags (--print-config
# among them, by which tasuki-run knows that it may ask for settings).
self=$0
[ -L "$self" ] && self=$(readlink -f "$self")
root=$(cd "${self%/*}/.." && pwd) || exit 1
name=${self##*/}
export OPAL_PREFIX="$root/openmpi" OPAL_BINDIR="$root/openmpi/bin" OPAL_LIBDIR="$root/lib"
export OPAL_PKGLIBDIR="$root/openmpi/components" OPAL_DATADIR="$root/openmpi/share"
export OPAL_PKGDATADIR="$root/openmpi/share" OPAL_SYSCONFDIR="$root/openmpi/etc"
export HWLOC_PLUGINS_PATH="$root/lib/hwloc"
export PMIX_INSTALL_PREFIX="$root/pmix" PMIX_LIBDIR="$root/lib"
export PMIX_PKGLIBDIR="$root/pmix/components" PMIX_PKGDATADIR="$root/pmix/share"
export OMPI_MCA_orte_launch_agent="$root/bin/orted"
# mpirun wants a way to other machines, even where it needs none.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm=isolated
export TASUKI_PROGRAMS="$root/bin"
export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$root/bin${PATH:+:$PATH}"
for folder in "$root/libexec" "$root/openmpi/bin"; do
  [ -x "$folder/$name" ] && exec "$folder/$name" "$@"
done
echo "$name: not in the bundle at $root" >&2
exit 127
WRAPPER
  chmod +x "$root/bin/$name"
done

# Where this machine has its libraries says nothing of others, and an empty entry in such a list would
# be the current folder.
cat > "$work/forget.cmake" <<'CMAKE'
file(GLOB_RECURSE files "${root}/libexec/*" "${root}/lib/*" "${root}/openmpi/bin/*"
     "${root}/openmpi/components/*" "${root}/pmix/components/*")
foreach(file IN LISTS files)
  file(RPATH_REMOVE FILE ${file})
endforeach()
CMAKE
cmake -Droot="$root" -P "$work/forget.cmake" >/dev/null

# --- scripts and documents ---
cp "$source/README.md" "$root/"
cp "$source"/docs/*.md "$root/docs/"
cp "$source"/scripts/{gpu_check.sh,get_data.sh,compare_logs.py,usage.sh} "$source/tests/gpu/sanitize.sh" \
  "$root/scripts/"
cp "$source"/hostfiles/{mca-params.conf,start_orted} "$root/share/tasuki/"
find "$source/bench" -name '*.py' -exec cp {} "$root/bench/" \;

# --- licenses ---
cp "$source/LICENSE" "$root/"
# Libraries that are compiled into Tasuki's programs: CMake's files of them are in the same package.
for library in nlohmann_json GTest; do
  folder=$(sed -n "s/^${library}_DIR:.*=//p" "$build/CMakeCache.txt")
  [ ! -d "$folder" ] || note_origin "$folder" "$library"
done
nvidia="CUDA, cuDNN, NCCL and NVIDIA's driver are not in this bundle."
if [ -e "$root/lib/libtasuki_cuda.so" ] &&
  ! readelf -d "$root/lib/libtasuki_cuda.so" | grep -q 'NEEDED.*libcudart'; then
  nvidia="lib/libtasuki_cuda.so contains NVIDIA's CUDA runtime (libcudart_static), which is distributed under the
license of the CUDA Toolkit (https://docs.nvidia.com/cuda/eula/). Other libraries of CUDA, cuDNN, NCCL and
NVIDIA's driver are not in this bundle."
fi
"$source/scripts/third_party_notices.py" "$nvidia" < "$others" > "$root/THIRD_PARTY_NOTICES"

# Compiled against this machine's C library, so it does not start with an older one.
glibc=$(readelf -V "$root"/libexec/* "$root"/lib/*.so* 2>/dev/null |
  grep -oE 'GLIBC_[0-9]+\.[0-9.]+' | sort -uV | tail -1)

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c tasuki | xz -T0 -c > "$output.part"
mv "$output.part" "$output"
size=$(stat -c %s "$output")
say "$output: $((size / 1024)) KiB, for machines with glibc ${glibc#GLIBC_} or later"
[ "$size" -lt "$largest" ] || fail "$output is larger than $((largest / 1024 / 1024)) MiB"
