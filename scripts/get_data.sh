#!/bin/bash
# Downloads a data set to where Tasuki's programs look for it.
#
#   scripts/get_data.sh mnist|fashion-mnist|cifar10 [DIR]     default: ~/.cache/tasuki/NAME
#
# Files come from public mirrors, or from TASUKI_MIRROR=URL, a folder that holds them under their
# usual names. A transfer that was cut goes on where it stopped, also in a later run. What arrives is
# checked by its MD5 (where known, of the unpacked contents: mirrors pack differently), and DIR appears, or gets
# new files, only when the whole data set is right.
set -euo pipefail

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
    # Of the archive itself, the only one that its authors publish: a mirror must serve their file
    # as it is. The unpacked files are checked by their size.
    sums="c32a1d4ab5d03f1284b67883e8d87530 cifar-10-binary.tar.gz" ;;
  *) fail "expected mnist, fashion-mnist or cifar10, found '$name';" \
          "usage: scripts/get_data.sh NAME [DIR]" ;;
esac
[[ -z ${TASUKI_MIRROR:-} ]] || mirrors=("${TASUKI_MIRROR%/}")
folder=${2:-${HOME:?}/.cache/tasuki/$name}
folder=${folder%/}
partial=$folder.partial  # beside it, so that moving is renaming

archive_files=(data_batch_{1..5}.bin test_batch.bin)  # what is wanted of CIFAR-10's archive
archive_file_bytes=30730000  # each: 10,000 examples of a label and 3 x 32 x 32 bytes

md5_of() {
  case "$1" in
    *-ubyte.gz) { gzip -dc <"$1" 2>/dev/null || true; } | md5sum ;;
    *) md5sum <"$1" ;;
  esac | cut -d ' ' -f 1
}

is_right() { # file md5
  [[ -f $1 && $(md5_of "$1") == "$2" ]]
}

size_of() {
  stat -c %s "$1" 2>/dev/null || echo 0
}

# Appends to the file what is missing of it; sets `reason` and fails when that does not succeed.
# Status 2: the server cannot go on in the middle; 3: the file cannot be written.
transfer() { # url file
  local status=0 message
  if [[ $downloader == curl ]]; then
    message=$(curl --fail --location --silent --show-error --connect-timeout 15 \
                --speed-limit 100 --speed-time 30 --continue-at - --output "$2" "$1" 2>&1) || status=$?
    reason=${message##*curl: }
    case $status in
      0) return ;;
      22 | 33 | 36) return 2 ;;
      23) return 3 ;;
      *) return 1 ;;
    esac
  fi
  message=$(LC_ALL=C wget --no-verbose --tries=1 --timeout=30 --continue --output-document="$2" \
              "$1" 2>&1) || status=$?
  reason=$(grep -v '^$' <<<"$message" | tail -n 1)
  case $status in
    0) return ;;
    1 | 8) return 2 ;;
    3) return 3 ;;
    *) return 1 ;;
  esac
}

# Downloads a file, trying again as long as more of it arrives, and up to three times when not.
fetch() { # url file md5
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
      # All of it and yet not right. What an earlier run or another mirror began may be to blame.
      rm -f "$2"
      reason="wrong contents (MD5 differs from $3)"
      ((!fresh)) || return 1
    elif ((status == 2)); then
      rm -f "$2"
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
    echo "  apt-get install dataset-fashion-mnist    (Tasuki looks there by itself)"
  if [[ $name == cifar10 ]]; then
    echo "  unpack $files elsewhere and copy ${archive_files[*]} to $folder"
  else
    echo "  copy $files to $folder by hand"
  fi
  echo "  or set TASUKI_MIRROR=URL to a folder of a server that holds these files"
}

# The file from the first mirror that has it.
fetch_from_mirrors() { # file md5
  local mirror tried=""
  for mirror in "${mirrors[@]}"; do
    echo "get_data: $mirror/$1"
    fetch "$mirror/$1" "$partial/$1" "$2" && return
    tried+="  $mirror/$1: $reason"$'\n'
  done
  fail "$1 did not arrive. Tried:"$'\n'"$tried$(remedies)"
}

in_place() { # file md5: packed or not
  is_right "$folder/$1" "$2" || is_right "$folder/${1%.gz}" "$2"
}

complete() {
  if [[ $name == cifar10 ]]; then
    [[ -f $folder/MD5SUMS ]] && (cd "$folder" && md5sum --quiet --status -c MD5SUMS)
    return
  fi
  local sum file
  while read -r sum file; do
    in_place "$file" "$sum" || return
  done <<<"$sums"
}

# Files in the way: of these names, but with other contents. They may be somebody's own.
in_the_way() {
  local sum file
  if [[ $name == cifar10 ]]; then
    (cd "$folder" 2>/dev/null && ls -d "${archive_files[@]}" 2>/dev/null) || true
    return
  fi
  while read -r sum file; do
    for file in "$file" "${file%.gz}"; do
      [[ ! -e $folder/$file ]] || is_right "$folder/$file" "$sum" || echo "$file"
    done
  done <<<"$sums"
}

if complete; then
  echo "get_data: $name is in $folder already"
  exit
fi
obstacles=$(in_the_way | xargs)
[[ -z $obstacles ]] ||
  fail "$folder holds $obstacles, but with other contents than $name has; move them away or name" \
       "another folder"
downloader=$(command -v curl || command -v wget) || fail "needs curl or wget (apt-get install curl)"
downloader=$(basename "$downloader")
mkdir -p "$partial" 2>/dev/null || fail "cannot make the folder $partial"
exec {lock}<"$partial"
flock -n "$lock" || fail "another get_data.sh is at work in $partial"

while read -r sum file; do
  in_place "$file" "$sum" || is_right "$partial/$file" "$sum" || fetch_from_mirrors "$file" "$sum"
done <<<"$sums"
if [[ $name == cifar10 ]]; then
  archive=$partial/${sums#* }
  tar -xzf "$archive" -C "$partial" --no-same-owner --strip-components=1 ||
    fail "cannot unpack $archive"
  (cd "$partial" && md5sum "${archive_files[@]}" >MD5SUMS) ||
    fail "$archive does not hold ${archive_files[*]}"
  for file in "${archive_files[@]}"; do
    size=$(size_of "$partial/$file")
    ((size == archive_file_bytes)) ||
      fail "$file in $archive has $size bytes instead of $archive_file_bytes"
  done
  rm "$archive"
fi

if [[ ! -e $folder ]]; then
  mv "$partial" "$folder"
else
  find "$partial" -mindepth 1 -maxdepth 1 -exec mv -t "$folder" {} +
  rmdir "$partial"
fi
echo "get_data: $name is in $folder"
