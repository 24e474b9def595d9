#!/usr/bin/env bash
# From a fresh clone to the first result: set-up if needed, release build, then the bundled photographs
# classified with the bundled weights, and drawn with what the model looked at into heatmaps/. At the end the
# build of what trains, converts and times models.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh hydrascope
build/release/hydrascope classify --set progress=off assets/images "$@"
build/release/hydrascope visualize --set progress=off --beside --caption assets/images "$@"
echo "build: train, convert and benchmark; everything else is there" >&2
scripts/build.sh hydrascope_trainer
