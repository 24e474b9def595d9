#!/usr/bin/env bash
# Fuzzes the readers of hostile files with libFuzzer, under AddressSanitizer and UBSan (tests/fuzz):
#   scripts/fuzz.sh [MINUTES] [TARGET...]   each target for that long, all targets by default, one on each core
# Without MINUTES: HYDRASCOPE_FUZZ_SECONDS each, or 60. The seed changes from run to run. The corpus stays in
# build/fuzz/corpus; what ends a target is kept in tests/fuzz/findings/TARGET, where the tests try it again for ever, and
# this ends with 1. 77: there is no clang with libFuzzer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${HYDRASCOPE_FUZZ_BUILD:-build/fuzz}

seconds=${HYDRASCOPE_FUZZ_SECONDS:-60}
if [[ ${1:-} =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  seconds=$(awk "BEGIN {print int($1 * 60)}")
  shift
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$file" _fuzz.cpp)"); done
fi
for target in "${targets[@]}"; do
  [ -e "tests/fuzz/${target}_fuzz.cpp" ] || { echo "error: there is no target $target in tests/fuzz" >&2; exit 2; }
done

# The newest clang whose library of C++20 is whole: 16 and later.
compiler=
for name in clang++ clang++-{22..16}; do
  command -v "$name" >/dev/null || continue
  if printf '%s\n' '#include <source_location>' 'static_assert(std::source_location::current().line() > 0);' \
    'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
    "$name" -std=c++20 -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null; then
    compiler=$(command -v "$name")
    break
  fi
done
if [ -z "$compiler" ]; then
  echo "SKIPPED: no clang 16 or newer with libFuzzer (scripts/setup.sh tests)"
  exit 77
fi
mkdir -p "$build"
{
  flock 9  # one build at a time: ctest runs several targets at once
  {
    cmake -G Ninja -S tests/fuzz -B "$build" "-DCMAKE_CXX_COMPILER=$compiler" &&
      cmake --build "$build" -j "$(nproc)" --target "${targets[@]/%/_fuzz}"
  } >"$build/build.log" 2>&1 || { tail -n 30 "$build/build.log" >&2; exit 1; }
} 9>"$build/.lock"

# Sets `seeds_of`, a command that lists valid files of the target's kind in the repository, and `dictionary`.
describe() {
  dictionary=text seeds_of=(true)
  case $1 in
    safetensors) dictionary=safetensors seeds_of=(find tests/data tests/corpus -type f -name '*.safetensors*') ;;
    torch_file) dictionary=pickle seeds_of=(find tests/data tests/corpus -type f -regex '.*[.]\(pt\|pth\|bin\)') ;;
    pickle) dictionary=pickle ;;
    picture | decode) dictionary=picture seeds_of=(find tests/corpus/pictures -type f) ;;
    video_index) seeds_of=(find tests/corpus/videos -type f) ;;
    json | state) dictionary=json seeds_of=(find tests/data tests/corpus -type f -name '*.json') ;;
  esac
}

fuzz() {
  local target=$1 most=16384 work findings seeds log status=0 dictionary seeds_of
  describe "$target"
  work=$build/corpus/$target findings=$build/findings/$target seeds=$build/seeds/$target log=$build/$target.log
  rm -rf "$findings" "$seeds"
  mkdir -p "$work" "$findings" "$seeds"
  while read -r file; do
    [ "$(stat -c %s "$file")" -gt $most ] || cp "$file" "$seeds/$(sha256sum <"$file" | cut -c1-16)"
  done < <("${seeds_of[@]}" 2>/dev/null)
  local known=("tests/fuzz/corpus/$target" "$seeds")
  [ ! -d "tests/fuzz/findings/$target" ] || known+=("tests/fuzz/findings/$target")
  ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer || true) UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0 \
    "$build/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -report_slow_units=1000 -rss_limit_mb=2048 -max_len=$most -print_final_stats=1 \
    -dict="tests/fuzz/dictionaries/$dictionary.dict" -artifact_prefix="$findings/" "$work" "${known[@]}" \
    >"$log" 2>&1 || status=$?
  # The last line of progress that says what was reached: "#123	REDUCE cov: 45 ft: 67 ...".
  awk -v target="$target" '
    / cov: / { for (i = 1; i < NF; ++i) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1) } }
    /^#[0-9]+/ { runs = substr($1, 2) }
    /stat::number_of_executed_units/ { runs = $2 }
    END { printf "%-14s %12s %8s %8s", target, runs, cov, ft }' "$log"
  local found=0 file
  for file in "$findings"/*; do
    [ -e "$file" ] || continue
    found=1
    mkdir -p "tests/fuzz/findings/$target"
    local kept="tests/fuzz/findings/$target/$(basename "$file" | cut -d- -f1)-$(sha256sum <"$file" | cut -c1-8)"
    cp "$file" "$kept"
    printf '  %s' "$kept"
  done
  printf '\n'
  [ $found -eq 0 ] && [ $status -eq 0 ] && return 0
  grep -m1 -A12 -E 'ERROR: |runtime error|broken invariant|Assertion|terminate called' "$log" >&2 || tail -n 15 "$log" >&2
  return 1
}
export -f fuzz describe
export build seconds
printf '%-14s %12s %8s %8s\n' target executions edges features
status=0
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'set -euo pipefail; fuzz {}' || status=1
exit $status
