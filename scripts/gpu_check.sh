#!/usr/bin/env bash
# Builds, checks and measures the GPU side on a machine that has an NVIDIA GPU, without network:
#   gpu_check.sh [--stages LIST] [--out DIR] [--build DIR] [--headers DIR] [--images DIR] ...
# docs/gpu.md says what every stage does; --help lists the options.
#
# Exit codes: 0 every chosen stage passed, or could not run for want of a GPU or a tool (the report says which);
# 1 a stage failed; 2 wrong usage; 4 with --require-targets: a target was missed or not measured.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bench=$root/tests/bench/peers
readonly ALL_STAGES=(configure build-kernels build-program tests sanitizer kernels model conversion report)

usage() {
  cat <<'END'
usage: gpu_check.sh [OPTIONS]

  --stages LIST         comma list of configure, build (= build-kernels,build-program), tests, sanitizer, kernels,
                        model, conversion, report; default: all. A call continues what earlier calls left in --out and --build
  --out DIR             raw output of the stages, gpu_report.json, gpu_report.md (default: out/gpu)
  --build DIR           default: build/gpu
  --headers DIR         what scripts/make/gather_headers.sh made elsewhere (default: the system's packages)
  --python PATH         Python with torch 2.11 and CUDA (default: python3)
  --libtorch DIR        LibTorch (default: HYDRASCOPE_LIBTORCH, else that Python's torch)
  --architectures LIST  as in CMAKE_CUDA_ARCHITECTURES (default: this machine's GPU; 90-real without one)
  --images DIR          pictures for the agreement of CPU and GPU (default: assets/images); labelled by folders or
                        images.csv, or not
  --pictures DIR        what the conversion learns from, some thousand of them; without it that stage is not run
  --limit SECONDS       of every stage (default: 470)
  --jobs N              compilers at a time (default: by processors and memory)
  --shards N            processes that share the tests (default: 8, at most the processors)
  --test-filter, --sanitizer-filter GLOB    --gtest_filter of the kernels' tests in these stages
  --sanitizer-tools LIST  default: memcheck,racecheck
  --commit ID           for the report, where there is no git
  --require-targets     exit with 4 when a target is missed or was not measured
END
}
say() { printf 'gpu_check: %s\n' "$*" >&2; }
wrong() { printf 'error: %s\nhint: gpu_check.sh --help\n' "$1" >&2; exit 2; }

# ---- Options -------------------------------------------------------------------------------------
stages=${ALL_STAGES[*]}
out=$root/out/gpu
build=$root/build/gpu
headers='' libtorch=${HYDRASCOPE_LIBTORCH:-} architectures='' commit='' require_targets=''
python=python3
images=$root/assets/images pictures=''
limit=470
shards=$(($(nproc) < 8 ? $(nproc) : 8))
# One compiler a core; a Torch file takes about 1 GiB.
by_memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
jobs=$((by_memory < 1 ? 1 : by_memory < $(nproc) ? by_memory : $(nproc)))
test_filter='*' sanitizer_filter='*' sanitizer_tools='memcheck racecheck'
# Every option of the usage that takes a value is a variable of that name.
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --require-targets) require_targets=yes; shift; continue ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    --*) ;;
    *) wrong "unexpected argument $1" ;;
  esac
  [[ $1 =~ ^--[a-z-]+$ ]] || wrong "unknown option $1"
  grep -qE -e "^  (--[a-z-]+, )?$1[ ,]+[-A-Z]" <<<"$(usage)" || wrong "unknown option $1"
  [ $# -ge 2 ] || wrong "$1 needs a value"
  name=${1#--}
  printf -v "${name//-/_}" %s "$2"
  shift 2
done
stages=${stages//,/ } sanitizer_tools=${sanitizer_tools//,/ }
for number in "$limit" "$jobs" "$shards"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || wrong "--limit, --jobs and --shards are whole numbers above 0, not '$number'"
done
stages=${stages/build /build-kernels build-program }
[[ $stages != *build ]] || stages=${stages%build}"build-kernels build-program"
for stage in $stages; do
  [[ " ${ALL_STAGES[*]} " == *" $stage "* ]] || wrong "unknown stage $stage"
done
[ -z "$pictures" ] || [ -d "$pictures" ] || wrong "--pictures $pictures: no such folder"
[ -d "$images" ] || wrong "--images $images: no such folder"
[ -z "$headers" ] || [ -d "$headers/include" ] || wrong "--headers $headers holds no include/ (gather_headers.sh makes one)"
command -v "$python" >/dev/null || wrong "--python $python: not found"
mkdir -p "$out/logs" "$build"
out=$(cd "$out" && pwd) build=$(cd "$build" && pwd) images=$(cd "$images" && pwd)
[ -z "$pictures" ] || pictures=$(cd "$pictures" && pwd)
[ -z "$headers" ] || headers=$(cd "$headers" && pwd)
cd "$root"

report() { "$python" -B "$bench/gpu_report.py" "$@"; }

# ---- The GPU -------------------------------------------------------------------------------------
# "name, compute capability, driver, memory" of the first GPU that is visible; else why there is none.
gpu_name='' no_gpu=''
find_gpu() {
  if command -v nvidia-smi >/dev/null; then
    gpu_name=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv,noheader 2>&1 |
      head -n 1) && [[ $gpu_name =~ ,\ [0-9]+\.[0-9]+, ]] && return
    no_gpu="nvidia-smi says: $gpu_name"
    gpu_name=''
    return
  fi
  # Some containers have a GPU and no nvidia-smi.
  gpu_name=$("$python" -c 'import torch
major, minor = torch.cuda.get_device_capability()
print(f"{torch.cuda.get_device_name()}, {major}.{minor},")' 2>/dev/null) ||
    no_gpu="no nvidia-smi, and $python's torch sees none"
}
find_gpu
if [ -z "$architectures" ]; then
  capability=
  [[ ! $gpu_name =~ ,\ ([0-9]+)\.([0-9]+), ]] || capability=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
  architectures=${capability:-90}-real
fi
if [ -z "$commit" ]; then
  commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
  [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || commit="$commit and changes"
fi
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
report note "$out" "gpu=$gpu_name" "no_gpu=$no_gpu" "commit=$commit" "architectures=$architectures" \
  "processors=$(nproc)" "kernel=$(uname -r)" "compiler=$(c++ --version 2>/dev/null | head -n 1)" \
  "nvcc=$([ -z "$nvcc" ] || "$nvcc" --version | sed -n 's/^.*release \([0-9.]*\).*$/\1/p')"

# ---- Stages --------------------------------------------------------------------------------------
# Each sets `verdict` (passed, failed, not run) and `message`, and writes to its log.
verdict='' message=''
began=0
left() { echo $((limit - (SECONDS - began) > 1 ? limit - (SECONDS - began) : 1)); }
within() { timeout --kill-after=10 "$(left)" "$@"; }
# Runs a command into the log; its last line that says something is the message where it fails.
attempt() {
  local code=0
  within "$@" >>"$log" 2>&1 || code=$?
  case $code in
    0) verdict=passed ;;
    124 | 137) verdict=failed message="stopped after $limit s" ;;
    *)
      verdict=failed
      message=$(grep -m 1 'error: ' "$log" || grep -m 1 -A 6 'CMake Error' "$log" || tail -n 1 "$log")
      message="exit code $code: $(head -c 300 <<<"$message" | tr -s '[:space:]' ' ')"
      ;;
  esac
  [ "$verdict" = passed ]
}
without_gpu() {
  [ -z "$gpu_name" ] || return 1
  verdict='not run' message="no GPU: $no_gpu"
}
need_program() {
  [ -x "$1" ] && return
  verdict=failed message="$1 is not built: the stage $2 comes first"
  return 1
}

stage_configure() {
  if [ -z "$libtorch" ]; then
    libtorch=$("$python" -c 'import torch; print(torch.__path__[0])' 2>>"$log") ||
      { verdict=failed message="$python has no torch: see --python and --libtorch"; return 0; }
  fi
  local options=(-DCMAKE_BUILD_TYPE=Release -DHYDRASCOPE_CUDA=ON -DHYDRASCOPE_OPENCV=OFF
    "-DHYDRASCOPE_CUDA_ARCHITECTURES=$architectures" "-DHYDRASCOPE_LIBTORCH=$libtorch"
    "-DHYDRASCOPE_DEPENDENCIES=$headers")
  command -v ninja >/dev/null && options+=(-G Ninja)
  # Another compiler's new warnings are no reason to stop here.
  attempt cmake -S "$root" -B "$build" --compile-no-warning-as-error "${options[@]}" || return 0
  message="$architectures, LibTorch $(sed -n 's/^-- LibTorch \([0-9.]*\):.*$/\1/p' "$log" | tail -n 1)"
}
build_targets() {
  if attempt cmake --build "$build" --parallel "$jobs" --target "$@"; then
    message=$*
  elif [[ $message == stopped* ]]; then
    message="$message; the same stage again continues"
  fi
}

# One process, its exit code in NAME.exit and what it prints in NAME.log.
record() {
  local folder=$1 name=$2 code=0
  shift 2
  within "$@" >"$folder/$name.log" 2>&1 || code=$?
  echo "$code" >"$folder/$name.exit"
}
take_verdict() { IFS=$'\t' read -r verdict message < <(report judge "$out" "$1"); }

stage_tests() {
  without_gpu && return
  local kernels=$build/tests/gpu_kernel_tests model=$build/tests/model_tests shard
  local operators=$build/model/ops/libhydrascope_ops.so
  need_program "$kernels" build-kernels || return 0
  rm -rf "$out/tests" && mkdir "$out/tests"
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard record "$out/tests" "gpu_kernel_tests.$shard" "$kernels" \
      "--gtest_filter=$test_filter" "--gtest_output=json:$out/tests/gpu_kernel_tests.$shard.json" &
  done
  wait
  if [ -x "$model" ]; then
    record "$out/tests" model_tests "$model" '--gtest_filter=*Gpu*:*GPU*:*Cuda*:*CUDA*' \
      "--gtest_output=json:$out/tests/model_tests.json"
  fi
  if [ -e "$operators" ]; then
    # It names no folder to look for Highway in.
    LD_LIBRARY_PATH=${headers:+$headers/lib:}${LD_LIBRARY_PATH:-} record "$out/tests" ops_test "$python" -B \
      "$root/tests/model/ops/ops_test.py" "$operators" ValuesOnGpu GradientsOnGpu
  fi
  take_verdict tests
  [ -x "$model" ] || message="$message; the model's were not built"
  [ -e "$operators" ] || message="$message; the operators were not built"
}

stage_sanitizer() {
  without_gpu && return
  local sanitizer tool shard kernels=$build/tests/gpu_kernel_tests
  need_program "$kernels" build-kernels || return 0
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { verdict='not run' message="compute-sanitizer is not installed"; return 0; }
  rm -rf "$out/sanitizer" && mkdir "$out/sanitizer"
  # The tools share the stage's time.
  local all=$limit count rounds=0
  count=$(wc -w <<<"$sanitizer_tools")
  for tool in $sanitizer_tools; do
    rounds=$((rounds + 1))
    limit=$((all * rounds / count))
    for ((shard = 0; shard < shards; ++shard)); do
      GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard record "$out/sanitizer" "$tool.$shard" \
        "$sanitizer" --tool "$tool" --print-limit 20 "$kernels" "--gtest_filter=$sanitizer_filter" &
    done
    wait
  done
  limit=$all
  take_verdict sanitizer
}

stage_kernels() {
  without_gpu && return
  local kernels=$build/tests/kernel_bench
  need_program "$kernels" build-kernels || return 0
  mkdir -p "$out/kernels"
  local code=0 rows
  within "$kernels" >"$out/kernels/kernels.jsonl" 2>>"$log" || code=$?
  rows=$(grep -c '"us_median"' "$out/kernels/kernels.jsonl" || true)
  message="$rows rows"
  verdict=passed
  [ "$code" -eq 0 ] || verdict=failed message="$message; exit code $code $(tail -n 1 "$log")"
}

stage_model() {
  without_gpu && return
  need_program "$build/hydrascope" build-program || return 0
  need_program "$build/tests/kernel_bench" build-kernels || return 0
  rm -rf "$out/model" && mkdir "$out/model"
  # Its own limit comes first, so that it ends what it started and names what was left out.
  attempt "$python" -B "$bench/gpu_measure.py" --hydrascope "$build/hydrascope" --out "$out/model" --images "$images" \
    --kernel-bench "$build/tests/kernel_bench" --python "$python" --time-limit "$((limit > 40 ? limit - 20 : limit))" ||
    return 0
  message="$(grep -c '"who"' "$out/model/model.json" || true) rows"
}

stage_conversion() {
  without_gpu && return
  [ -n "$pictures" ] || { verdict='not run' message='no pictures to learn from (--pictures)'; return 0; }
  need_program "$build/hydrascope" build-program || return 0
  rm -rf "$out/conversion" && mkdir "$out/conversion"
  local convert=("$build/hydrascope" convert --attn hedgehog --device cuda --no-progress -i "$pictures")
  attempt "${convert[@]}" -o "$out/conversion/hedgehog.safetensors" --report "$out/conversion/conversion.json" || return 0
  message=$(sed -n 's/^ *"minutes": *\([0-9.]*\),$/\1 minutes/p' "$out/conversion/conversion.json" | head -n 1)
  local gpus
  gpus=$(nvidia-smi -L 2>/dev/null | wc -l || true)
  [ "$gpus" -ge 2 ] || { message="$message; NCCL needs two GPUs"; return 0; }
  # NCCL takes no two ranks on one GPU.
  attempt "${convert[@]}" --processes 2 --steps-maps 20 --max-minutes 1 -o "$out/conversion/two.safetensors" || return 0
  message="$message; two ranks over NCCL"
}

for stage in $stages; do
  [ "$stage" != report ] || continue
  verdict=failed message=''
  began=$SECONDS
  log=$out/logs/$stage.log
  : >"$log"
  say "$stage"
  case $stage in
    configure) stage_configure ;;
    build-kernels) build_targets kernel_bench gpu_kernel_tests ;;
    build-program) build_targets hydrascope model_tests hydrascope_ops ;;
    tests) stage_tests ;;
    sanitizer) stage_sanitizer ;;
    kernels) stage_kernels ;;
    model) stage_model ;;
    conversion) stage_conversion ;;
  esac
  report stage "$out" "$stage" "$verdict" "$((SECONDS - began))" "$message"
  say "$stage: $verdict${message:+ ($message)}, $((SECONDS - began)) s"
done

# ---- Report --------------------------------------------------------------------------------------
# What earlier calls measured is in it, too: written whenever a stage ran.
report write "$out"
[[ " $stages " != *" report "* ]] || { sed -n '/^## Targets/,/^## Tests/p' "$out/gpu_report.md" | sed '/^## Tests/d'; }
say "wrote $out/gpu_report.md and gpu_report.json"
code=0
for stage in $stages; do
  if grep -qs '"status": "failed"' "$out/stages/$stage.json"; then code=1; fi
done
if [ $code -eq 0 ] && [ -n "$require_targets" ] && grep -qE '"reached": (false|null)' "$out/gpu_report.json"; then
  code=4
fi
exit $code
