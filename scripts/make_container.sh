#!/usr/bin/env bash
# Builds the container image hydrascope:VERSION (scripts/Containerfile) with podman, buildah or docker, from the release
# build, which it packs; then has it classify a photograph that is in it.
#   scripts/make_container.sh [--base IMAGE]
# Without --base the image is built on debian:12-slim, which the tool fetches. Ends with 77 where there is no tool that works.
#   HYDRASCOPE_BUILD=FOLDER  where the build is (default: build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=debian:12-slim
[ "${1:-}" != --base ] || base=$2
build=${HYDRASCOPE_BUILD:-build/release}
tool=
for name in podman buildah docker; do
  if command -v $name >/dev/null 2>&1 && $name info >/dev/null 2>&1; then tool=$name; break; fi
done
[ -n "$tool" ] || { echo "skipped: neither podman nor buildah nor docker runs here"; exit 77; }
# What can be fetched is known before minutes of packing.
have() { "$tool" inspect --type image "$base" >/dev/null 2>&1; }
have || "$tool" pull "$base" >/dev/null 2>&1 || { echo "skipped: $tool cannot fetch $base"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" || { cat "$work/cpack.log" >&2; exit 1; }
mkdir "$work/context"
mv "$work"/hydrascope-*.tar.gz "$work/context/hydrascope.tar.gz"
version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
"$tool" build ${CONTAINER_OPTIONS:-} --build-arg "BASE=$base" -t "hydrascope:$version" -f scripts/Containerfile "$work/context" >&2
[ "$tool" != buildah ] || { echo "built hydrascope:$version"; exit 0; }
"$tool" run ${CONTAINER_OPTIONS:-} --rm --entrypoint sh "hydrascope:$version" -c \
  'hydrascope classify --no-progress /opt/hydrascope-*/share/hydrascope/images && hydrascope doctor | grep decoder'
echo "built hydrascope:$version"
