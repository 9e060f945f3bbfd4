#!/bin/bash
# Debian and Ubuntu packages that Tasuki needs, in one list; installs those that are missing.
#
#   scripts/dependencies.sh [build|packages|test]           install what is missing (default: build)
#   scripts/dependencies.sh --list [build|packages|test]    print the packages, one per line
#
# `packages` is `build` and what packages.sh uses besides; `test` the same for test.sh.
# TASUKI_SKIP_DEPENDENCIES=1 checks and installs nothing: for machines where the same libraries come
# from somewhere else.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config ccache
  make  # by default CMake builds projects of users with it
  libopenmpi-dev openmpi-bin openssh-client  # mpirun reaches other hosts through ssh
  libdnnl-dev libhwloc-dev libboost-program-options-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev libxxhash-dev libzip-dev zlib1g-dev
  libjpeg-dev libpng-dev  # folders of images
  libonnx-dev libprotobuf-dev protobuf-compiler  # models in ONNX
  libhdf5-dev  # data sets in HDF5 files
  dataset-fashion-mnist
)
packages_packages=(dpkg-dev file gzip)
test_packages=(
  clang-format clang-tidy libomp-dev  # omp.h for clang-tidy
  clang libclang-rt-dev  # libFuzzer
  libgtest-dev libgmock-dev
  gfortran  # the module for Fortran, and its example
  git python3 python3-numpy curl wget valgrind xz-utils
  iproute2 iptables  # nodes made of network namespaces, and networks that lose packets
  gnuplot-nox graphviz  # plots of experiments, figures of the documents
  doxygen  # the documents and headers as a site
)

# Tests start these daemons by themselves (tests/cluster), and are skipped without them: 4 MB, 24 s at most.
# systemd would start them for good, which nobody expects of tests, so that they are installed only
# where it does not run: in containers and CI.
[[ -d /run/systemd/system ]] || test_packages+=(
  openssh-server  # mpirun by ssh
  slurmctld slurmd slurm-client munge
)

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/usage.sh"
take_flags --list -- "$@"

fail() {
  echo "dependencies: $*" >&2
  exit 1
}

list=0
if [[ ${1:-} == --list ]]; then
  list=1
  shift
fi
case "${1:-build}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  packages) packages=("${build_packages[@]}" "${packages_packages[@]}") ;;
  *) refuse "build, packages or test expected, found '$*'" ;;
esac
if ((list)); then
  printf '%s\n' "${packages[@]}"
  exit
fi
[[ ${TASUKI_SKIP_DEPENDENCIES:-} == 1 ]] && exit

how_to_skip="if they are there by other means, set TASUKI_SKIP_DEPENDENCIES=1"
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  fail "no apt-get here (Debian 12 is what Tasuki is made for). It needs what these Debian" \
       "packages hold: ${packages[*]}; $how_to_skip"
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
            sed -n 's/^installed //p') || true
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  # Without a terminal no password can be typed.
  if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    fail "${#missing[@]} packages are missing, and installing them takes root or sudo. Run:" \
         "apt-get update && apt-get install --no-install-recommends ${missing[*]}   ($how_to_skip)"
  fi
fi

apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
     -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
echo "dependencies: installing ${missing[*]}"
"${apt[@]}" update >/dev/null ||
  echo "dependencies: apt-get update failed; using the present package lists" >&2
"${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null ||
  fail "apt-get could not install: ${missing[*]} (its messages are above; $how_to_skip)"
