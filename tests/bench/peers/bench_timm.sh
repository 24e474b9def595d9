#!/usr/bin/env bash
# timm (eager, float32) against hydrascope, in turns: see bench_timm.py for what is measured.
#
#   tests/bench/peers/bench_timm.sh [--python PATH] [OPTIONS OF bench_timm.py] [COMMAND...]
#
# run.sh makes the virtual environment, which carries more peers than this one; --python PATH uses an
# interpreter that has torch and timm instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${1:-} == --python ]]; then
  if (($# < 2)); then
    echo "error: --python needs the path of an interpreter" >&2
    exit 2
  fi
  python=$2
  shift 2
else
  python=$("$here/run.sh" --print-python)
fi

exec "$python" "$here/bench_timm.py" "$@"
