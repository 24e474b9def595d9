#!/usr/bin/env bash
# From a fresh clone to the first result: set-up if needed, release build, then classify the bundled
# photographs with the bundled weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh hydrascope
exec build/release/hydrascope classify --no-progress assets/images "$@"
