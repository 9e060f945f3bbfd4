# Sourced by scripts: the comment at a script's head is its help.

print_help() {
  sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"
}

# Says in one line what is wrong with the arguments, and ends the script.
refuse() {
  echo "${0##*/}: $*; ${0##*/} --help says more" >&2
  exit 64
}

# take_flags [FLAG...] -- ARGUMENTS...: prints the help and ends the script where they ask for it, and
# refuses flags that are not among the first.
take_flags() {
  local known=() word
  while [[ $1 != -- ]]; do
    known+=("$1")
    shift
  done
  shift
  for word; do
    case $word in
      -h | --help)
        print_help
        exit
        ;;
      -*) [[ " ${known[*]} " == *" $word "* ]] || refuse "unknown flag '$word'" ;;
    esac
  done
}
