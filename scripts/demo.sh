#!/usr/bin/env bash
# From a fresh clone to the first result: set-up if needed, release build, then the bundled photographs
# classified with the bundled weights, and drawn with what the model looked at into heatmaps/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh hydrascope
build/release/hydrascope classify --no-progress assets/images "$@"
exec build/release/hydrascope visualize --no-progress --beside --caption assets/images "$@"
