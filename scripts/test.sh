#!/usr/bin/env bash
# Set-up if needed, build, and the whole test suite but what is labelled slow or fuzz. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh
exec ctest --test-dir build/release --output-on-failure -j "$(nproc)" -LE 'slow|fuzz' "$@"
