#!/usr/bin/env bash
# The GPU side in half an hour: an archive made here, and three commands for a machine that has a GPU
# and neither network nor packages. docs/gpu.md says what they do; --help lists the options.
set -euo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
peers=$kit/scripts/bench/peers
readonly MIB=1048576
readonly MOST_OF_KIT=30 MOST_OF_LOG=524288 # MiB, bytes: some 25 logs stay below 16 MiB even where gzip gains nothing
# In the order in which they are rebuilt; a group becomes usable as a whole.
readonly GROUPS_OF_PROGRAMS=(
  'tests/gpu_kernel_tests tests/kernel_bench'
  'hydrascope-engine hydrascope-trainer hydrascope tests/gpu_model_tests model/ops/libhydrascope_ops.so')

usage() {
  cat <<'END'
usage: gpu_kit.sh make --pictures DIR [--out FILE] [--python PATH]
       gpu_kit.sh tests|network|sanitize [--out DIR] [--python PATH] [--seconds N]

  make       builds for sm_90 and packs programs, sources, headers and DIR's pictures (images.csv labels
             them; shrunk by that Python's Pillow) into FILE (default: build/gpu_kit.tar.xz), at most 30 MiB
  tests      kernels' and model's tests, 10^5 replays of Hydra bit by bit, bandwidths of all kernels
  network    whole networks and attention beside PyTorch, CPU beside GPU
  sanitize   hardware counters, racecheck, memcheck

  --out DIR      gets COMMAND.tar.gz, at most 16 MiB, renewed while the command runs (default: $OUT, else out)
  --python PATH  Python with torch 2.11 and CUDA (default: the first of python3 and usual places)
  --seconds N    after which the command ends (default: 530)

Exit codes: 0 every step passed or could not run here (no GPU, no tool); 1 a step failed; 2 wrong usage; 143 stopped.
END
}
say() { printf 'gpu_kit: %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$1" >&2; exit "${2:-1}"; }
wrong() { fail "$1 (see gpu_kit.sh --help)" 2; }

# ---- Options -------------------------------------------------------------------------------------
command=${1:-}
[ $# -eq 0 ] || shift
out='' python='' pictures='' seconds=530
case $command in
  -h | --help) usage; exit 0 ;;
  make | tests | network | sanitize | rebuild) ;;
  *) wrong "expected make, tests, network or sanitize, not '$command'" ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    --out | --python | --pictures | --seconds) [ $# -ge 2 ] || wrong "$1 needs a value" ;;
    *) wrong "unknown argument $1" ;;
  esac
  printf -v "${1#--}" %s "$2"
  shift 2
done
case $python in
  */*) python=$(cd "$(dirname "$python")" && pwd)/${python##*/} || wrong "--python '$python' is not there" ;;
esac
[[ $seconds =~ ^[1-9][0-9]*$ ]] || wrong "--seconds is a whole number above 0, not '$seconds'"
configure() { # FOLDER HEADERS OPTION...
  local folder=$1 headers=$2 generator=()
  shift 2
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  # Another compiler's new warnings are no reason to stop.
  cmake "${generator[@]}" -S "$kit" -B "$folder" --compile-no-warning-as-error -DCMAKE_BUILD_TYPE=Release \
    -DHYDRASCOPE_CUDA=ON -DHYDRASCOPE_CUDA_ARCHITECTURES=90-real -DHYDRASCOPE_OPENCV=OFF \
    "-DHYDRASCOPE_DEPENDENCIES=$headers" -DHYDRASCOPE_TEST_ROOT=. "$@"
}
build_group() { # FOLDER GROUP
  local targets
  # Programs are named like their targets, nearly.
  targets=$(tr ' ' '\n' <<<"$2" | sed 's#.*/##; s/^lib\(.*\)\.so$/\1/; s/-/_/')
  # shellcheck disable=SC2086  # several words
  cmake --build "$1" --parallel "$(nproc)" --target $targets
}

# ---- Here: the archive ---------------------------------------------------------------------------
shrink_pictures() {
  "${python:-python3}" - "$1" "$2" <<'END'
import csv, pathlib, shutil, sys
from PIL import Image
source, target = map(pathlib.Path, sys.argv[1:])
shutil.copy(source / "images.csv", target)
with open(source / "images.csv", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        picture = Image.open(source / row["file"]).convert("RGB")
        scale = 224 / min(picture.size)
        size = [max(224, round(scale * side)) for side in picture.size]
        picture.resize(size, Image.Resampling.BICUBIC).save(target / row["file"], "JPEG", quality=80)
END
}
make_kit() {
  [ -f "$pictures/images.csv" ] || wrong "--pictures '$pictures' holds no images.csv"
  local build=$kit/build/gpu_kit archive=${out:-$kit/build/gpu_kit.tar.xz} stage group program size
  rm -rf "$build/deps" "$build/stage"
  "$kit/scripts/make/gather_headers.sh" "$build/deps"
  configure "$build" "$build/deps"
  stage=$build/stage/gpu_kit
  mkdir -p "$stage/pictures"
  for group in "${GROUPS_OF_PROGRAMS[@]}"; do
    build_group "$build" "$group"
    for program in $group; do install -D --strip "$build/$program" "$stage/build/gpu_kit/$program"; done
  done
  # Sources to rebuild from, without what neither that nor a command reads.
  (cd "$kit" && git ls-files --cached --others --exclude-standard |
    grep -vE '^(docs|assets/images|assets/figures|tests/corpus)/|^assets/models/.*\.(hydra_last2|hedgehog|window|exits)\.' |
    while read -r file; do [ ! -e "$file" ] || echo "$file"; done | tar -cT - | tar -xC "$stage")
  cp -r "$build/deps" "$stage/deps"
  shrink_pictures "$pictures" "$stage/pictures"
  (cd "$kit" && git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) >"$stage/commit.txt"
  XZ_OPT='-9 -T0' tar -C "$build/stage" -cJf "$archive" gpu_kit
  size=$(stat -c %s "$archive")
  say "$archive: $((size / 1024)) KiB, $(find "$stage/pictures" -name '*.jpg' | wc -l) pictures"
  [ "$size" -le $((MOST_OF_KIT * MIB)) ] || fail "$archive is larger than $MOST_OF_KIT MiB"
}

# ---- There: the ground every command stands on ---------------------------------------------------
torch=''
find_python() {
  local each
  # shellcheck disable=SC2086  # one word where it is given
  for each in ${python:-python3 /opt/*/.venv/bin/python3 /opt/venv/bin/python3 "${HOME:-/root}"/venv/bin/python3}; do
    torch=$("$each" -c 'import importlib.metadata, importlib.util
assert importlib.metadata.version("torch").startswith("2.11.")
print(importlib.util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || torch=''
    [ -e "$torch/lib/libtorch_cuda.so" ] || continue
    python=$(command -v "$each")
    return
  done
  torch='' python=${python:-python3}
}
runs() { # PROGRAM, as it was brought
  [ -e "$kit/build/gpu_kit/$1" ] && ! ldd "$kit/build/gpu_kit/$1" 2>&1 | grep -q 'not found'
}
probe() {
  date -u
  cat "$kit/commit.txt" 2>/dev/null || true
  nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.sm --format=csv,noheader 2>&1 ||
    echo "no GPU: nvidia-smi says so, or there is none"
  echo "$(nproc) processors, $(awk '/MemTotal/ {print int($2 / 1048576)}' /proc/meminfo) GiB, Linux $(uname -r), $(ldd --version | head -n 1)"
  echo "python: $python, torch: ${torch:-no torch 2.11 with CUDA}"
  "$python" -c 'import timm; print("timm:", timm.__version__)' 2>/dev/null || echo "timm: none, its network is written out"
  # torch.compile needs both; without them its peers are eager.
  "$python" -c 'import os, sysconfig
path = sysconfig.get_path("include") + "/Python.h"
print(f"{path}:", "there" if os.path.exists(path) else "none, so torch.compile fails")' 2>/dev/null || true
  local tool file
  for tool in nvcc cmake ninja c++ ncu compute-sanitizer; do
    echo "$tool: $(find_tool "$tool" || echo none)"
  done
  [ -z "$torch" ] || ls "$torch/../nvidia/cu13/lib" 2>&1 | tr '\n' ' '
  echo
  for file in "${programs[@]}"; do
    if runs "$file"; then echo "$file: loads"; else
      echo "$file: REFUSED: $(ldd "$kit/build/gpu_kit/$file" 2>&1 | grep -e 'not found' -e 'No such' | tr -s '[:space:]' ' ')"
    fi
  done
  "$kit/build/gpu_kit/hydrascope" --version || true
}
find_tool() {
  command -v "$1" && return
  ls "/usr/local/cuda/bin/$1" /opt/nvidia/nsight-compute/*/"$1" 2>/dev/null | head -n 1 | grep .
}

# Programs that do not load are built again on all cores, by a process that outlives this command.
start_rebuild() {
  exec 9>"$kit/out/rebuild.lock"
  if flock -n 9; then # and that process and its compilers hold it
    setsid nohup bash "$kit/scripts/gpu_kit.sh" rebuild --python "$python" >>"$kit/out/rebuild.log" 2>&1 </dev/null &
  fi
  exec 9>&-
}
rebuild() {
  local folder=$kit/build/rebuilt group program
  configure "$folder" "$kit/deps" "-DHYDRASCOPE_LIBTORCH=$torch"
  for group in "${GROUPS_OF_PROGRAMS[@]}"; do
    build_group "$folder" "$group"
    for program in $group; do touch "$folder/$program.ready"; done
  done
}
# Sets `program`: as it was brought, else as it was rebuilt, which is waited for.
need() {
  program=$kit/build/gpu_kit/$1
  ! runs "$1" || return 0
  program=$kit/build/rebuilt/$1
  while [ ! -e "$program.ready" ] && [ $((end - SECONDS)) -gt 20 ] && ! flock -n "$kit/out/rebuild.lock" true; do
    sleep 1 &
    wait $!
  done
}

# One step: its output goes to NAME.log, its end to steps.tsv, and the archive is renewed.
child='' step_name='' step_began=0
step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 code=0 left=$((end - SECONDS - 5))
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 3 ]; then
    note "$name" 'no time was left' 0
    return
  fi
  say "$name (at most $limit s)"
  step_name=$name step_began=$SECONDS
  timeout --kill-after=5 "$limit" "$@" >"$work/$name.log" 2>&1 &
  child=$!
  wait "$child" || code=$?
  child=''
  note "$name" "$code" "$((SECONDS - step_began))"
  say "$name: exit code $code, $((SECONDS - step_began)) s"
  pack || true
}
note() { printf '%s\t%s\t%s\n' "$@" >>"$work/steps.tsv"; }

# Packs the results so far, with long logs cut in their middle; exit code 1 where a step failed.
pack() {
  (
    flock 8
    code=0
    "$python" -B "$peers/gpu_report.py" "$work" >"$kit/out/report.log" 2>&1 || code=1
    rm -rf "$kit/out/stage" && mkdir -p "$kit/out/stage/$command"
    for file in "$work"/* "$kit"/out/rebuild.log "$kit"/out/report.log; do
      [ -f "$file" ] || continue
      if [ "$(stat -c %s "$file")" -le $MOST_OF_LOG ]; then cat "$file"; else
        head -c $((MOST_OF_LOG / 2)) "$file"
        printf '\n[... cut ...]\n'
        tail -c $((MOST_OF_LOG / 2)) "$file"
      fi >"$kit/out/stage/$command/${file##*/}"
    done
    tar -C "$kit/out/stage" -czf "$out/.$command.part" "$command" &&
      mv "$out/.$command.part" "$out/$command.tar.gz"
    exit $code
  ) 8>"$kit/out/pack.lock"
}
ticker=''
finish() {
  local code=$?
  trap '' TERM INT HUP
  if [ -n "$child" ]; then
    kill "$child" 2>/dev/null || true # timeout hands it on
    wait "$child" || true
    note "$step_name" 143 "$((SECONDS - step_began))"
  fi
  [ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true
  pack || [ $code -ne 0 ] || code=1
  say "$out/$command.tar.gz: $(($(stat -c %s "$out/$command.tar.gz") / 1024)) KiB"
  exit $code
}

begin() {
  out=${out:-${OUT:-$kit/out}}
  work=$kit/out/$command
  rm -rf "$work"
  mkdir -p "$out" "$work"
  out=$(cd "$out" && pwd)
  cd "$kit" # tests look for the sources here
  find_python
  PATH=$PATH:$(dirname "$(command -v "$python")"):/usr/local/cuda/bin
  export PATH PYTHONUNBUFFERED=1
  export LD_LIBRARY_PATH="$kit/deps/lib${torch:+:$torch/lib:${torch%/*}/nvidia/cu13/lib}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export kit python torch
  mapfile -t programs < <(tr ' ' '\n' <<<"${GROUPS_OF_PROGRAMS[*]}")
}
run_command() {
  end=$((SECONDS + seconds))
  begin
  trap finish EXIT
  trap 'exit 143' TERM INT HUP
  local refused='' each
  export -f probe runs find_tool
  # Arrays are not exported: the names as words.
  step probe 30 bash -c "programs=(${programs[*]}); probe"
  for each in "${programs[@]}"; do runs "$each" || refused=yes; done
  if [ -n "$refused" ]; then
    say 'what was brought does not load here: rebuilding in the background'
    start_rebuild
  fi
  while sleep 15; do pack || true; done >/dev/null 2>&1 &
  ticker=$!
  "steps_of_$command"
}

# ---- There: the commands, their steps in the order of their worth --------------------------------
# Processes that share a program's tests.
shards=$(($(nproc) < 8 ? $(nproc) : 8))
# shellcheck disable=SC2016  # expanded by the other bash
sharded=(bash -c 'n=$1; shift
seq 0 $((n - 1)) | xargs -P "$n" -I{} env GTEST_TOTAL_SHARDS="$n" GTEST_SHARD_INDEX={} "$@"' shards "$shards")

# A tool that is not there is no failure.
# shellcheck disable=SC2016
with_tool=(bash -c 'path=$(find_tool "$1") || { echo "$1 is not installed"; exit 77; }; shift; exec "$path" "$@"' tool)

steps_of_tests() {
  need tests/gpu_kernel_tests
  step kernel_tests 160 "${sharded[@]}" "$program"
  need tests/kernel_bench
  step replays 180 "$program" --replays 100000 --filter '^hydra forward'
  step kernels 150 "$program"
  need tests/gpu_model_tests
  step model_tests 120 "$program"
  need model/ops/libhydrascope_ops.so
  step operators 90 "$python" -B tests/model/ops/ops_test.py "$program" ValuesOnGpu GradientsOnGpu
}
steps_of_network() {
  need tests/kernel_bench
  local bench=$program
  need hydrascope-trainer # which hydrascope starts for its benchmark
  need hydrascope-engine  # and for the rest
  local left=$((end - SECONDS))
  step network "$left" "$python" -B "$peers/gpu_measure.py" --hydrascope "${program%-engine}" --kernel-bench "$bench" \
    --images "$kit/pictures" --out "$work" --time-limit $((left > 40 ? left - 20 : left))
}
steps_of_sanitize() {
  need tests/kernel_bench
  # shellcheck disable=SC2054  # ncu's commas
  local counters=(--clock-control none --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy
    --section WarpStateStats --metrics
    l1tex__t_requests_pipe_lsu_mem_global_op_st.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum)
  step counters_of_hydra 60 "${with_tool[@]}" ncu "${counters[@]}" --kernel-name 'regex:gate_kernel|project_kernel' \
    --launch-skip 4 --launch-count 4 "$program" --launches 30 --filter '^hydra forward, B 8, N 8161'
  need tests/gpu_kernel_tests
  local sanitizer=("${sharded[@]}" "${with_tool[@]}" compute-sanitizer --print-limit 20)
  local filter='--gtest_filter=*HydraCuda*:*TensorCores*.Equals*:*TensorCores*.RowsDoNot*:*LayerNorm*'
  step racecheck $(((end - SECONDS) / 2)) "${sanitizer[@]}" --tool racecheck "$program" "$filter"
  step memcheck $((end - SECONDS)) "${sanitizer[@]}" --tool memcheck "$program" "$filter"
}

case $command in
  make) make_kit ;;
  rebuild)
    begin
    rebuild
    ;;
  *) run_command ;;
esac
