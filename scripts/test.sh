#!/usr/bin/env bash
# Set-up if needed, build, tests; at the end what was left out and what was skipped.
#   scripts/test.sh            the parts that are free of LibTorch, and the program's commands: minutes after demo.sh
#   scripts/test.sh --all      all tests but the slow ones, and a minute of fuzzing for each target
#   scripts/test.sh --nightly  all tests, long fuzzing, CUDA kernels for every architecture, a build without OpenCV, the
#                              documentation's site with its tutorials, the container, kernels on a newer Highway and on
#                              AArch64 under QEMU
# Further arguments go to ctest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tier=quick
case ${1:-} in
  --all | --nightly) tier=${1#--}; shift ;;
esac

# run_tests FOLDER CTEST-ARGUMENTS...: fails at the end, after the list of skipped tests. `allow` is a rule of
# skipped_tests.py.
run_tests() {
  local folder=$1 status=0
  shift
  ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" --output-junit tests.xml \
    --test-output-size-passed 1000000 "$@" || status=$?
  python3 scripts/skipped_tests.py "$folder/tests.xml" --strict ${allow:+--allow "$allow"} || status=1
  return $status
}

# A tier goes on after a failure, says what it left out, and ends with 1.
failed=0
case $tier in
  quick)
    scripts/build.sh hydrascope quick_tests
    run_tests build/release -L quick -LE slow "$@" || failed=1
    echo "left out: modules, training, attention's gradients, maps, most of the command line, kernels under" \
      "sanitizers, CUDA kernels on the emulator, fuzzing (scripts/test.sh --all)"
    ;;
  all)
    scripts/setup.sh tests
    scripts/build.sh
    run_tests build/release -LE slow "$@" || failed=1
    echo "left out: slow tests, long fuzzing, CUDA for every architecture, builds without OpenCV, tutorials, the container" \
      "(scripts/test.sh --nightly)"
    ;;
  nightly)
    scripts/setup.sh tests
    scripts/build.sh
    HYDRASCOPE_FUZZ_SECONDS=600 run_tests build/release "$@" || failed=1
    # The decoder that reads pictures where there is no OpenCV.
    HYDRASCOPE_OPENCV=OFF HYDRASCOPE_BUILD=build/no_opencv scripts/build.sh hydrascope unit_tests viz_tests
    allow='* | this build has no OpenCV' run_tests build/no_opencv -L quick -E '^(bench|docs|kernel_tests)' "$@" || failed=1
    # The kernels for every target of a newer Highway (scripts/setup.sh tests).
    highway=${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hydrascope}/highway-trixie
    if [ -d "$highway" ]; then
      { cmake --preset release -B build/highway -DHYDRASCOPE_KERNELS_ONLY=ON -DHYDRASCOPE_DEPENDENCIES="$highway" &&
        cmake --build build/highway --target kernel_tests && run_tests build/highway "$@"; } || failed=1
    else
      echo "left out: kernels on Debian 13's Highway, which is not there"
    fi
    # Every kernel on every architecture; the run of these needs a GPU.
    if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
      HYDRASCOPE_CUDA=ON HYDRASCOPE_BUILD=build/cuda scripts/build.sh hydrascope gpu_kernel_tests
      run_tests build/cuda -R '^gpu_kernel_tests(\.[0-9]+)?$' "$@" || failed=1
      python3 tests/kernels/machine_code_test.py --architectures 80,86,89,90,100,120 || failed=1
    else
      echo "left out: CUDA for every architecture, there is no nvcc"
    fi
    # The kernels and the plan that runs them on AArch64: with NEON alone, and on a processor that has SVE, too.
    if command -v aarch64-linux-gnu-g++ >/dev/null 2>&1 && command -v qemu-aarch64 >/dev/null 2>&1; then
      { cmake --preset arm && cmake --build --preset arm --target kernel_tests; } || failed=1
      for cpu in cortex-a72 max; do
        QEMU_CPU=$cpu run_tests build/arm "$@" || failed=1
      done
    else
      echo "left out: kernels on AArch64, there is no aarch64-linux-gnu-g++ or no qemu-aarch64 (docs/testing.md)"
    fi
    # They end with 77, and say why, where what they need is not there.
    for script in make_site make_release; do
      status=0
      said=$("scripts/$script.sh") || status=$?
      printf '%s\n' "$said"
      case $status in
        0) ;;
        77) echo "left out: scripts/$script.sh, ${said#skipped: }" ;;
        *) failed=1 ;;
      esac
    done
    ;;
esac
exit $failed
