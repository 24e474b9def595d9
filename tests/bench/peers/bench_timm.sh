#!/usr/bin/env bash
# timm (eager, float32) against hydrascope, in turns: see bench_timm.py for what is measured.
#
#   tests/bench/peers/bench_timm.sh [--python PATH] [OPTIONS OF bench_timm.py] [COMMAND...]
#
# The first call makes a virtual environment of pinned versions from PyPI (a few GB: its torch
# carries CUDA) in ${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hydrascope}/peers-venv.
# --python PATH uses an interpreter that has torch and timm instead.
set -euo pipefail

readonly PINS=(torch==2.11.0 torchvision==0.26.0 timm==1.0.31)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

make_venv() {
  local venv=$1 stamp="$1/hydrascope-pins.txt"
  if [[ -f $stamp && $(<"$stamp") == "${PINS[*]}" ]]; then
    return
  fi
  echo "making $venv: ${PINS[*]}" >&2
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet "${PINS[@]}" >&2
  # Written last, so that an interrupted installation is begun again.
  echo "${PINS[*]}" >"$stamp"
}

if [[ ${1:-} == --python ]]; then
  if (($# < 2)); then
    echo "error: --python needs the path of an interpreter" >&2
    exit 2
  fi
  python=$2
  shift 2
else
  venv=${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hydrascope}/peers-venv
  mkdir -p "$(dirname "$venv")"
  make_venv "$venv"
  python=$venv/bin/python
fi

exec "$python" "$here/bench_timm.py" "$@"
