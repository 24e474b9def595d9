#!/bin/sh
# Runs the compiler ("$@") and keeps what ptxas says of registers, spills and shared memory in
# OBJECT.ptxas; everything else it says goes on to stderr. A cached object (ccache) repeats its report.
object=
previous=
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$@" 2>"$said"
status=$?
grep -v -E '^ptxas info|^    [0-9]+ bytes|^ptxas .*Compile time' "$said" >&2
if [ $status -eq 0 ] && [ -n "$object" ]; then
  grep -E '^ptxas info|^    [0-9]+ bytes' "$said" >"$object.ptxas"
fi
exit $status
