#!/bin/bash
# Downloads a data set to where Tasuki's programs look for it.
#
#   scripts/get_data.sh mnist|fashion-mnist|cifar10|cifar100 [DIR]     default: ~/.cache/tasuki/NAME
#
# Files come from public mirrors, or from TASUKI_MIRROR=URL, a folder that holds them under their
# usual names. An interrupted transfer is resumed, also in a later run. The files are checked by
# published sums of their *unpacked* contents (mirrors pack differently), and DIR appears, or gets
# new files, only when the whole data set is correct.
set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/usage.sh"
take_flags -- "$@"

fail() {
  echo "get_data: $*" >&2
  exit 1
}

name=${1:-}
case "$name" in
  mnist)
    mirrors=(https://ossci-datasets.s3.amazonaws.com/mnist
             https://storage.googleapis.com/cvdf-datasets/mnist)
    sums="6bbc9ace898e44ae57da46a324031adb train-images-idx3-ubyte.gz
          a25bea736e30d166cdddb491f175f624 train-labels-idx1-ubyte.gz
          2646ac647ad5339dbf082846283269ea t10k-images-idx3-ubyte.gz
          27ae3e4e09519cfbb04c329615203637 t10k-labels-idx1-ubyte.gz" ;;
  fashion-mnist)
    mirrors=(http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
             https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion)
    sums="f4a8712d7a061bf5bd6d2ca38dc4d50a train-images-idx3-ubyte.gz
          9018921c3c673c538a1fc5bad174d6f9 train-labels-idx1-ubyte.gz
          8181f5470baa50b63fa0f6fddb340f0a t10k-images-idx3-ubyte.gz
          15d484375f8d13e6eb1aabb0c3f46965 t10k-labels-idx1-ubyte.gz" ;;
  cifar10)
    mirrors=(https://www.cs.toronto.edu/~kriz)
    archive=cifar-10-binary.tar.gz
    # SHA-1 sums, as Apache MXNet publishes them (gluon.data.vision.CIFAR10).
    sums="aadd24acce27caa71bf4b10992e9e7b2d74c2540 data_batch_1.bin
          c0ba65cce70568cd57b4e03e9ac8d2a5367c1795 data_batch_2.bin
          1dd00a74ab1d17a6e7d73e185b69dbf31242f295 data_batch_3.bin
          aab85764eb3584312d3c7f65fd2fd016e36a258e data_batch_4.bin
          26e2849e66a845b7f1e4614ae70f4889ae604628 data_batch_5.bin
          67eb016db431130d61cd03c7ad570b013799c88c test_batch.bin" ;;
  cifar100)
    mirrors=(https://www.cs.toronto.edu/~kriz)
    archive=cifar-100-binary.tar.gz
    # SHA-1 sums, as Apache MXNet publishes them (gluon.data.vision.CIFAR100).
    sums="e207cd2e05b73b1393c74c7f5e7bea451d63e08e train.bin
          8fb6623e830365ff53cf14adec797474f5478006 test.bin" ;;
  *) refuse "mnist, fashion-mnist, cifar10 or cifar100 expected, found '$name'" ;;
esac
[[ -z ${TASUKI_MIRROR:-} ]] || mirrors=("${TASUKI_MIRROR%/}")
folder=${2:-${HOME:?}/.cache/tasuki/$name}
folder=${folder%/}
partial=$folder.partial  # beside it, so that moving is renaming

sum_of() { # file as-published-sum, whose length tells MD5 from SHA-1
  local tool=md5sum
  ((${#2} == 32)) || tool=sha1sum
  case "$1" in
    *.gz) { gzip -dc <"$1" 2>/dev/null || true; } | "$tool" ;;
    *) "$tool" <"$1" ;;
  esac | cut -d ' ' -f 1
}

is_right() { # file sum; of an archive, whether what is unpacked beside it has the sums of all files
  if [[ -n ${archive:-} && ${1##*/} == "$archive" ]]; then
    tar -xzf "$1" -C "${1%/*}" --no-same-owner --strip-components=1 2>/dev/null &&
      all_right "${1%/*}"
  else
    [[ -f $1 && $(sum_of "$1" "$2") == "$2" ]]
  fi
}

all_right() { # folder: with each file as it is or unpacked
  local sum file
  while read -r sum file; do
    is_right "$1/$file" "$sum" || is_right "$1/${file%.gz}" "$sum" || return
  done <<<"$sums"
}

size_of() {
  stat -c %s "$1" 2>/dev/null || echo 0
}

# The status of a transfer that the server refused, by its answer in `reason`.
refused() {
  case "$reason" in
    *[Rr][Rr][Oo][Rr]*\ 416*) return 2 ;;
    *[Rr][Rr][Oo][Rr]*\ 40[134]* | *[Rr][Rr][Oo][Rr]*\ 410*) return 4 ;;
    *) return 1 ;;
  esac
}

# Appends the missing part to the file; sets `reason` and fails if that does not succeed. Status 2:
# the server cannot resume, and the present part is useless; 3: the file cannot be written; 4: the
# server does not have it; 1: anything that may pass.
transfer() { # url file
  local status=0 message
  if [[ $downloader == curl ]]; then
    message=$(curl --fail --location --silent --show-error --connect-timeout 15 \
                --speed-limit 100 --speed-time 30 --continue-at - --output "$2" "$1" 2>&1) || status=$?
    reason=${message##*curl: }
    case $status in
      0) return ;;
      22) refused; return ;;
      33 | 36) return 2 ;;
      23) return 3 ;;
      *) return 1 ;;
    esac
  fi
  message=$(LC_ALL=C wget --no-verbose --tries=1 --timeout=30 --continue --output-document="$2" \
              "$1" 2>&1) || status=$?
  reason=$(grep -v '^$' <<<"$message" | tail -n 1)
  case $status in
    0) return ;;
    8) refused; return ;;
    1) return 2 ;;
    3) return 3 ;;
    *) return 1 ;;
  esac
}

# Downloads a file, trying again as long as more of it arrives, and up to three times otherwise.
fetch() { # url file sum
  local furthest=0 idle=0 attempt status size fresh
  reason="no answer"
  for ((attempt = 1; attempt <= 20 && idle < 3; ++attempt)); do
    fresh=$([[ -s $2 ]] && echo 0 || echo 1)
    status=0
    transfer "$1" "$2" || status=$?
    ((status != 3)) || fail "cannot write $2: $reason"
    is_right "$2" "$3" && return
    size=$(size_of "$2")
    if ((status == 0)); then
      # Complete but not correct: the beginning may be from an earlier run or another mirror.
      rm -f "$2"
      reason="wrong contents (checksums differ from the published ones)"
      ((!fresh)) || return 1
    elif ((status == 2)); then
      rm -f "$2"
    elif ((status == 4)); then
      return 1
    fi
    if ((size > furthest)); then
      furthest=$size
      idle=0
    else
      idle=$((idle + 1))
      ((idle == 3 || status == 2)) || sleep "$idle"
    fi
  done
  return 1
}

remedies() {
  local files
  files=$(awk '{print $2}' <<<"$sums" | xargs)
  echo "Without a network:"
  [[ $name != fashion-mnist ]] ||
    echo "  apt-get install dataset-fashion-mnist    (Tasuki finds it there)"
  echo "  copy $files${archive:+ (unpacked from $archive)} to $folder by hand"
  echo "  or set TASUKI_MIRROR=URL to a folder of a server that holds these files"
}

# The file from the first mirror that has it.
fetch_from_mirrors() { # file sum
  local mirror tried=""
  for mirror in "${mirrors[@]}"; do
    echo "get_data: $mirror/$1"
    fetch "$mirror/$1" "$partial/$1" "$2" && return
    tried+="  $mirror/$1: $reason"$'\n'
  done
  fail "$1 did not arrive. Tried:"$'\n'"$tried$(remedies)"
}

# Files with these names but other contents, which may be the user's.
in_the_way() {
  local sum file
  while read -r sum file; do
    for file in "$file" "${file%.gz}"; do
      [[ ! -e $folder/$file ]] || is_right "$folder/$file" "$sum" || echo "$file"
    done
  done <<<"$sums"
}

if all_right "$folder"; then
  echo "get_data: $name is in $folder already"
  exit
fi
obstacles=$(in_the_way | sort -u | xargs)
[[ -z $obstacles ]] ||
  fail "$folder holds $obstacles, but with other contents than $name has; move them away or name" \
       "another folder"
downloader=$(command -v curl || command -v wget) || fail "needs curl or wget (apt-get install curl ca-certificates)"
downloader=$(basename "$downloader")
mkdir -p "$partial" 2>/dev/null || fail "cannot make the folder $partial"
exec {lock}<"$partial"
flock -n "$lock" || fail "another get_data.sh is at work in $partial"

if [[ -n ${archive:-} ]]; then
  fetch_from_mirrors "$archive" ""
  # The archive, and what else was in it.
  find "$partial" -mindepth 1 -maxdepth 1 -printf '%f\n' |
    grep -vxF "$(awk '{print $2}' <<<"$sums")" |
    while read -r other; do rm -r "${partial:?}/$other"; done
else
  while read -r sum file; do
    is_right "$folder/$file" "$sum" || is_right "$folder/${file%.gz}" "$sum" ||
      is_right "$partial/$file" "$sum" || fetch_from_mirrors "$file" "$sum"
  done <<<"$sums"
fi

if [[ ! -e $folder ]]; then
  mv "$partial" "$folder"
else
  find "$partial" -mindepth 1 -maxdepth 1 -exec mv -t "$folder" {} +
  rmdir "$partial"
fi
echo "get_data: $name is in $folder"
