#!/bin/bash
# An error in a program in Fortran that does not ask for it ends the program: one line, and the code.
#
#   fortran_stops.sh TEST_FORTRAN
said=$("$1" stop 2>&1)
code=$?
if [[ $code != 64 ]] || ! grep -q '^tasuki: network: expected' <<<"$said"; then
  echo "expected exit code 64 and a line about the network, found $code and: $said"
  exit 1
fi
