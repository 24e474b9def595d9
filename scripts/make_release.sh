#!/usr/bin/env bash
# A release in build/dist: the Python package, the tarball, Containerfile and SHA256SUMS. Then the container image
# hydrascope:VERSION of them, with docker, podman or buildah, whichever works, which classifies the photographs in it.
#   scripts/make_release.sh [BASE]
# BASE is the image that it is built on: debian:12-slim, or where that cannot be fetched, one that debootstrap makes of
# Debian's packages. Ends with 77 where no tool makes the image, or the wheel's tools cannot be had.
#   HYDRASCOPE_BUILD=FOLDER  a finished build, taken as it is (default: build/release, which is built here)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-debian:12-slim}
out=build/dist
rm -rf $out
mkdir -p $out
[ -n "${HYDRASCOPE_BUILD:-}" ] || scripts/build.sh hydrascope hydrascope_trainer hydrascope_library
export HYDRASCOPE_BUILD=${HYDRASCOPE_BUILD:-build/release}
HYDRASCOPE_WHEEL=$out scripts/make_wheel.sh
cpack --config "$HYDRASCOPE_BUILD/CPackConfig.cmake" -B $out >$out/cpack.log 2>&1 || { cat $out/cpack.log >&2; exit 1; }
rm -rf $out/cpack.log $out/_CPack_Packages
cp scripts/Containerfile $out/
(cd $out && sha256sum -- * >SHA256SUMS)
(cd $out && ls -l) >&2

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
[ -n "$tool" ] || { echo "skipped: the image, no docker, podman or buildah here runs $base; \`docker build -t hydrascope -f $out/Containerfile $out\` makes it"; exit 77; }

image=hydrascope:$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$HYDRASCOPE_BUILD/CPackConfig.cmake")
"$tool" build --build-arg "BASE=$base" -t "$image" -f $out/Containerfile $out >&2
run_in "$tool" "$image" sh -c 'hydrascope classify --set progress=off /opt/hydrascope-*/share/hydrascope/images && hydrascope doctor | grep decoder' >&2
echo "$tool built $image on $base"
