#!/bin/bash
# Each installed file belongs to one component, and each component has what packages take from it.
#
#   components.sh BUILD
set -euo pipefail
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "components: $*"; exit 1; }
files_in() { (cd "$1" && find . ! -type d | sort); }

components=(runtime development module)
[[ ! -e $build/libtasuki_cuda.so ]] || components+=(gpu)
cmake --install "$build" --prefix "$work/whole" >/dev/null
for component in "${components[@]}"; do
  cmake --install "$build" --prefix "$work/$component" --component "$component" >/dev/null
  files_in "$work/$component" >"$work/files"
  cat "$work/files" >>"$work/parts"
  case $component in
    runtime)
      expected=(bin/tasuki-run bin/train_mnist share/tasuki/start_orted share/tasuki/mca-params.conf
                share/doc/tasuki/README.md share/doc/tasuki/docs/training.md)
      # Where the programs have written them.
      [[ ! -d $build/pages ]] ||
        expected+=(share/man/man1/train_mnist.1 share/bash-completion/completions/tasuki-run)
      foreign='^./include/|/cmake/|/libtasuki(_program)?\.so$|/examples/'
      # HDF5 and ONNX are used where a build has found them.
      for plug_in in libtasuki_hdf5 libtasuki_onnx; do
        [[ ! -e $build/$plug_in.so ]] || grep -q "/$plug_in\.so$" "$work/files" ||
          fail "runtime has no $plug_in.so"
      done
      ;;
    development)
      expected=(include/tasuki/tasuki.hpp include/tasuki/tasuki.h share/tasuki/tasuki.f90
                share/doc/tasuki/examples/CMakeLists.txt)
      foreign='^./bin/|\.so\.|/share/tasuki/.*(sh|conf|orted)$'
      for file in libtasuki.so libtasuki_program.so cmake/tasuki/tasuki-config.cmake pkgconfig/tasuki-program.pc; do
        grep -q "/$file\$" "$work/files" || fail "development has no $file"
      done
      ;;
    module) expected=() foreign='^./(bin|lib|include)/|/share/doc/' ;;
    gpu) expected=() foreign='/libtasuki(_program)?\.so' ;;
  esac
  [[ -s $work/files ]] || fail "$component has no file"
  for file in "${expected[@]}"; do
    grep -qx "./$file" "$work/files" || fail "$component has no $file"
  done
  ! grep -E "$foreign" "$work/files" || fail "$component has the files above"
done
sort "$work/parts" | diff - <(files_in "$work/whole") ||
  fail "these files belong to no component, or to two (a rule of install() names none)"
echo "components: $(wc -l <"$work/parts") files"
