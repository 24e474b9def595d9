#!/usr/bin/env bash
# hydrascope beside timm, torch.compile, ONNX Runtime and OpenVINO, in turns: bench/peers/README.md says what is measured.
#
#   scripts/peers.sh                           DeiT-Ti at 224, 512 and 1088x1920, at most an hour
#   scripts/peers.sh quick                     a trial at 224
#   scripts/peers.sh all                       everything: hours
#   scripts/peers.sh [PRESET] [OPTIONS]        --help lists them
#   scripts/peers.sh --python PATH ...         with an interpreter that has the peers, or some of them
#   scripts/peers.sh --print-python            make the environment, print its interpreter
#
# The first call installs the packages of scripts/peers.lock (5.3 GB: torch carries CUDA) into
# ${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hydrascope}/peers-venv; it ends with 77 where they cannot be had.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
measure=$scripts/bench/peers/measure.py
for word in "$@"; do
  case $word in
    --python | --python=* | --list | --render | --render=* | --merge | --merge=* | --help | -h)
      exec python3 "$measure" "$@" ;;
  esac
done
venv=$("$scripts/locked_venv.sh" peers) || { status=$?; echo "$venv" >&2; exit $status; }
if [[ ${1:-} == --print-python ]]; then
  echo "$venv/bin/python"
  exit
fi
exec python3 "$measure" --python "$venv/bin/python" "$@"
