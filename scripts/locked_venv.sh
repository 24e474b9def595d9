#!/usr/bin/env bash
# Prints the folder of a virtual environment with the packages of scripts/NAME.lock, which it makes where it is not there or
# is of another lock or Python: locked_venv.sh NAME. Without them it says so instead, and ends with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lock=scripts/$1.lock
cache=${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hydrascope}
environment=$cache/$1-venv
stamp="$(python3 --version) $(sha256sum <"$lock")"
is_made() { [ "$(cat "$environment/.installed" 2>/dev/null)" = "$stamp" ]; }
if ! is_made; then
  mkdir -p "$cache"
  exec 9>"$cache/.$1-lock" # several checkouts may share the cache
  flock 9
fi
if ! is_made; then
  echo "installing the packages of $lock in $environment" >&2
  rm -rf "$environment"
  { python3 -m venv "$environment" &&
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
      --require-hashes -r "$lock" >&2; } || { echo "skipped: the packages of $lock cannot be installed"; exit 77; }
  echo "$stamp" >"$environment/.installed"
fi
echo "$environment"
