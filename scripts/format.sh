#!/usr/bin/env bash
# Formats C++ and CUDA by .clang-format; with --check it changes nothing and fails where a file would change.
# Versions of clang-format differ, so it is 14, Debian 12's. Without it the check ends with 77 (skipped).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-format-14 >/dev/null || { echo "clang-format-14 is not installed (scripts/setup.sh tests)" >&2; exit 77; }
how=(-i)
[ "${1:-}" != --check ] || how=(--dry-run --Werror)
git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 -n 40 -P "$(nproc)" clang-format-14 "${how[@]}"
