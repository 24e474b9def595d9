#!/usr/bin/env bash
# Packs the release build and makes the container image hydrascope:VERSION of it (scripts/Containerfile), with docker,
# podman or buildah, whichever works; then has the image classify the photographs that are in it.
#   scripts/make_container.sh [BASE]
# BASE is the image that it is built on: debian:12-slim, or where that cannot be fetched, one that debootstrap makes of
# Debian's packages. Ends with 77 where no tool works.
#   HYDRASCOPE_BUILD=FOLDER  where the build is (default: build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-debian:12-slim}
build=${HYDRASCOPE_BUILD:-build/release}
# A container inside another, as in continuous integration, has no more rights than that.
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run_in() {  # TOOL IMAGE COMMAND...
  local container status=0
  if [ "$1" != buildah ]; then "$1" run --rm --entrypoint "" "${@:2}"; return; fi
  container=$(buildah from "$2") || return
  buildah run "$container" -- "${@:3}" || status=$?
  buildah rm "$container" >/dev/null
  return $status
}
make_base() {  # of Debian's packages, from where this machine has its own
  local container
  base=localhost/debian-base:12
  ! run_in buildah $base true >/dev/null 2>&1 || return 0
  debootstrap --variant=minbase bookworm "$work/base" \
    "$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)" >"$work/debootstrap.log" || return
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/base" / >/dev/null
  buildah commit --quiet --rm "$container" $base >/dev/null
}
tool=
for name in docker podman buildah; do
  if command -v $name >/dev/null 2>&1 && run_in $name "$base" true >/dev/null 2>&1; then tool=$name; break; fi
done
if [ -z "$tool" ] && [ $# -eq 0 ] && command -v buildah >/dev/null 2>&1 && command -v debootstrap >/dev/null 2>&1; then
  make_base && tool=buildah
fi
[ -n "$tool" ] || { echo "skipped: no docker, podman or buildah here runs $base"; exit 77; }

cpack --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log" >&2; exit 1; }
mkdir "$work/context"
mv "$work"/hydrascope-*.tar.gz "$work/context/hydrascope.tar.gz"
image=hydrascope:$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
"$tool" build --build-arg "BASE=$base" -t "$image" -f scripts/Containerfile "$work/context" >&2
run_in "$tool" "$image" sh -c 'hydrascope classify --no-progress /opt/hydrascope-*/share/hydrascope/images && hydrascope doctor | grep decoder' >&2
echo "$tool built $image on $base"
