#!/usr/bin/env bash
# Set-up if needed, then the release build: build.sh [TARGET...]. Used by demo.sh and test.sh.
#   HYDRASCOPE_BUILD=FOLDER  where to build (default: build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
folder=${HYDRASCOPE_BUILD:-build/release}
options=()
for name in HYDRASCOPE_CUDA HYDRASCOPE_OPENCV HYDRASCOPE_LIBTORCH; do
  [ -z "${!name:-}" ] || options+=("-D$name=${!name}")
done
mkdir -p "$folder"
log=$folder/configure.log
if ! cmake --preset release -B "$folder" "${options[@]}" >"$log" 2>&1; then
  grep -A6 -m1 'CMake Error' "$log" >&2 || tail -n 20 "$log" >&2
  echo "error: configuring failed (the whole log is in $log)" >&2
  exit 1
fi
grep -E '^-- (LibTorch|CUDA|OpenCV)[: ]' "$log" | sed 's/^-- /build: /' >&2
# One compiler a core; a Torch file takes about 1 GiB, so less memory means fewer.
cores=$(nproc)
by_memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
jobs=$((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
arguments=(--build "$folder" -j "$jobs")
[ $# -eq 0 ] || arguments+=(--target "$@")
cmake "${arguments[@]}" >&2
