#!/usr/bin/env bash
# hydrascope beside timm, torch.compile, ONNX Runtime and OpenVINO, in turns: bench/peers/README.md says what is measured.
#
#   scripts/peers.sh                           DeiT-Ti at 224, 512 and 1088x1920, at most an hour
#   scripts/peers.sh quick                     a trial at 224
#   scripts/peers.sh all                       everything: hours
#   scripts/peers.sh [PRESET] [OPTIONS]        --help lists them
#   scripts/peers.sh --python PATH ...         with an interpreter that has the peers already
#   scripts/peers.sh --print-python            make the environment, print its interpreter
#
# The first call installs pinned versions with pip (5.3 GB: torch carries CUDA) into
# ${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hydrascope}/peers-venv.
set -euo pipefail

# A line a set: what cannot be installed is left out, and the tables say so.
readonly PINS=(
  "torch==2.11.0 torchvision==0.26.0 timm==1.0.31 numpy==2.4.6"
  "onnx==1.23.2 onnxruntime==1.31.1"
  "openvino==2026.4.1 nncf==3.4.0"
)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/bench/peers
cache=${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hydrascope}
venv=$cache/peers-venv

make_venv() {
  local stamp=$venv/hydrascope-pins.txt pins complete=yes
  mkdir -p "$cache"
  exec 9>"$cache/.peers-lock" # several checkouts may share the cache
  flock 9
  if [[ -f $stamp && $(<"$stamp") == "${PINS[*]}" ]]; then
    return
  fi
  echo "making $venv: ${PINS[*]}" >&2
  if [[ ! -x $venv/bin/pip ]] && ! python3 -m venv --clear "$venv" >&2; then
    echo "error: cannot make a virtual environment in $venv" >&2
    echo "hint: on Debian, apt-get install python3-venv" >&2
    exit 1
  fi
  for pins in "${PINS[@]}"; do
    # shellcheck disable=SC2086  # a line is several requirements
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $pins >&2; then
      echo "not installed, left out: $pins" >&2
      complete=no
    fi
  done
  # Written last and only when all are there, so that what is missing is tried again.
  if [[ $complete == yes ]]; then
    echo "${PINS[*]}" >"$stamp"
  fi
}

for word in "$@"; do
  case $word in
    --python | --python=* | --list | --render | --render=* | --merge | --merge=* | --help | -h)
      exec python3 "$here/measure.py" "$@" ;;
  esac
done
make_venv
exec 9>&-
if [[ ${1:-} == --print-python ]]; then
  echo "$venv/bin/python"
  exit
fi
exec python3 "$here/measure.py" --python "$venv/bin/python" "$@"
