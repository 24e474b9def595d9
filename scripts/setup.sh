#!/usr/bin/env bash
# Brings a Debian 12 machine (root or sudo) to where hydrascope builds. Safe to run again: what is there is
# kept, what is missing is fetched.
#   HYDRASCOPE_CACHE=FOLDER     where what is fetched is unpacked, shared by all checkouts (default: below XDG_CACHE_HOME)
#   HYDRASCOPE_LIBTORCH=FOLDER  an existing LibTorch (holds include/ and lib/): no wheel is fetched
#   HYDRASCOPE_CUDA=AUTO|ON|OFF, HYDRASCOPE_OPENCV=AUTO|ON|OFF  as in the build
# With the argument `tests` it also fetches what only tests use: axe-core, clang-format 14,
# Chromium, clang 19 for libFuzzer, and Debian 13's Highway.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cuda=${HYDRASCOPE_CUDA:-AUTO}
opencv=${HYDRASCOPE_OPENCV:-AUTO}
say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2; exit 1; }

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  fail "hydrascope builds on x86-64 Linux, this is $(uname -s) on $(uname -m)"

# ---- Debian packages -----------------------------------------------------------------------------
# A tool counts as there when its command is; a library when its package is.
wanted=()
need_command() { command -v "$1" >/dev/null 2>&1 || wanted+=("$2"); }
need_package() {
  # A line for each architecture that has it.
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed || wanted+=("$1")
}
for pair in c++:g++ cmake:cmake ninja:ninja-build git:git python3:python3; do need_command "${pair%%:*}" "${pair##*:}"; done
if [ "${1:-}" = tests ]; then
  need_command clang-format-14 clang-format-14
  python3 -c 'import ensurepip' >/dev/null 2>&1 || wanted+=(python3-venv)  # scripts/make_site.sh
  need_command chromium chromium  # 411 MB
  need_command clang++-19 clang-19  # libFuzzer
  need_package libclang-rt-19-dev
fi
python3 -m pip --version >/dev/null 2>&1 || wanted+=(python3-pip)
if command -v dpkg-query >/dev/null 2>&1; then
  for package in nlohmann-json3-dev libcxxopts-dev libstb-dev libhwy-dev libboost-dev zlib1g-dev libgtest-dev libgmock-dev ca-certificates; do
    need_package "$package"
  done
  if [ "${opencv^^}" != OFF ]; then
    for module in core imgproc imgcodecs videoio; do need_package "libopencv-$module-dev"; done
    need_package libjpeg62-turbo-dev  # decodes JPEGs as OpenCV does, without loading it
  fi
fi
if [ ${#wanted[@]} -gt 0 ]; then
  command -v apt-get >/dev/null 2>&1 ||
    fail "missing: ${wanted[*]}" "this script installs Debian packages; elsewhere install these by hand"
  root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || fail "missing packages: ${wanted[*]}" "run as root: apt-get install ${wanted[*]}"
    root=(sudo)
  fi
  say "installing ${wanted[*]}"
  log=$(mktemp)
  apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 "$@" >>"$log" 2>&1; }
  { apt update && apt install -y --no-install-recommends "${wanted[@]}"; } ||
    { tail -n 15 "$log" >&2; fail "apt-get could not install: ${wanted[*]}" "the whole log is in $log"; }
  rm -f "$log"
fi
cmake_version=$(cmake --version | sed -n 's/^cmake version //p')
[ "$(printf '3.25\n%s\n' "$cmake_version" | sort -V | head -n 1)" = 3.25 ] ||
  fail "CMake 3.25 or newer is needed, found $cmake_version ($(command -v cmake))"

# ---- axe-core ------------------------------------------------------------------------------------
# One test has axe-core look at pages; without it that test is skipped.
cache=${HYDRASCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hydrascope}
install_axe() {
  local folder=$cache/axe lock=scripts/axe.lock stamp
  stamp="$(python3 --version) $(sha256sum <"$lock")"
  [ "$(cat "$folder/.installed" 2>/dev/null)" != "$stamp" ] || return 0
  say "fetching axe, for a test"
  rm -rf "$folder.part" &&
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
      --only-binary=:all: --require-hashes -r "$lock" --target "$folder.part" >&2 &&
    echo "$stamp" >"$folder.part/.installed" && rm -rf "$folder" && mv "$folder.part" "$folder"
}
if [ "${1:-}" = tests ]; then
  { mkdir -p "$cache" && (flock 8 && install_axe) 8>"$cache/.axe-lock"; } || say "axe is not there: that test will be skipped"
fi

# ---- Highway of Debian 13 ------------------------------------------------------------------------
# It divides AVX-512 into more targets than this Debian's; test.sh --nightly runs the kernels on it.
install_highway() {
  local folder=$cache/highway-trixie options
  [ ! -e "$folder" ] || return 0
  say "fetching Highway of Debian 13, for a test"
  rm -rf "$folder.part" && mkdir -p "$folder.part"/{lists,archives}/partial && cd "$folder.part" || return
  apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) trixie main' \
    'Created-By: Packages' 'Codename: bookworm' 'Component: main' | head -n 1 >trixie.list
  options=(-qq -o Dir::Etc::SourceList="$PWD/trixie.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$PWD/lists"
    -o Dir::Cache="$PWD" -o APT::Sandbox::User="$(id -un)")
  apt-get "${options[@]}" update && apt-get "${options[@]}" download libhwy-dev libhwy1t64 || return
  for package in *.deb; do dpkg-deb -x "$package" root || return; done
  mkdir "$folder" && mv root/usr/include root/usr/lib/x86_64-linux-gnu "$folder" && mv "$folder/x86_64-linux-gnu" "$folder/lib"
  rm -rf "$folder.part"
}
if [ "${1:-}" = tests ]; then
  (install_highway) >&2 || say "Highway of Debian 13 is not there: test.sh --nightly leaves it out"
fi

# ---- LibTorch ------------------------------------------------------------------------------------
if [ -n "${HYDRASCOPE_LIBTORCH:-}" ]; then
  for piece in include/ATen/ATen.h lib/libtorch_cpu.so lib/libc10.so; do
    [ -e "$HYDRASCOPE_LIBTORCH/$piece" ] ||
      fail "HYDRASCOPE_LIBTORCH=$HYDRASCOPE_LIBTORCH holds no $piece" "it must be a folder with include/ and lib/"
  done
  exit 0
fi
lock=scripts/dependencies.lock
torch_version=$(awk '$1 == "torch" {print $2}' "$lock")
root_folder=$cache/libtorch-$torch_version
with_cuda=no
# As cmake/Cuda.cmake decides: AUTO needs a GPU beside the toolkit.
if [ "${cuda^^}" = ON ] || { [ "${cuda^^}" = AUTO ] && nvidia-smi >/dev/null 2>&1; }; then
  for nvcc in nvcc "${CUDA_HOME:-/nonexistent}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if command -v "$nvcc" >/dev/null 2>&1; then with_cuda=yes; fi
  done
fi
mkdir -p "$cache/wheels" "$root_folder/.installed" || fail "cannot write to the cache $cache" "set HYDRASCOPE_CACHE"

pip_command=(python3 -m pip)
# Fetches one pinned wheel into the cache; prints its path. pip verifies the sha256, and a wheel that is
# already there is verified again before it is used.
fetch() {
  local name=$1 version=$2 sha256=$3 file requirement
  file=$(find "$cache/wheels" -maxdepth 1 -name "${name//-/_}-$version-*.whl" | head -n 1)
  if [ -n "$file" ] && ! echo "$sha256  $file" | sha256sum --check --status; then
    say "$(basename "$file") is damaged, fetching it again"
    rm -f "$file"
    file=
  fi
  if [ -z "$file" ]; then
    say "fetching $name $version"
    requirement=$(mktemp)
    printf '%s==%s --hash=sha256:%s\n' "$name" "$version" "$sha256" >"$requirement"
    local attempt
    for attempt in 1 2 3; do
      # The platform is named so that every Python fetches the one wheel that is pinned.
      "${pip_command[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
        --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any \
        --require-hashes -r "$requirement" -d "$cache/wheels" >&2 && break
      say "attempt $attempt for $name failed"
    done
    rm -f "$requirement"
    file=$(find "$cache/wheels" -maxdepth 1 -name "${name//-/_}-$version-*.whl" | head -n 1)
    [ -n "$file" ] || return 1
  fi
  printf '%s\n' "$file"
}

# One set-up at a time: several checkouts may share the cache.
exec 9>"$cache/.lock"
flock 9
while read -r name version sha256 when; do
  case $name in '#'* | '') continue ;; esac
  [ "$when" != cuda ] || [ $with_cuda = yes ] || continue
  marker=$root_folder/.installed/$name-$version
  if [ "$when" = bootstrap ]; then
    [ -e "$root_folder/.installed/complete-$with_cuda" ] && continue
    wheel=$(fetch "$name" "$version" "$sha256") || fail "cannot fetch $name $version" "is the package index reachable?"
    pip_command=(python3 "$wheel/pip")
    continue
  fi
  [ -e "$marker" ] && continue
  wheel=$(fetch "$name" "$version" "$sha256") || fail "cannot fetch $name $version" "is the package index reachable?"
  say "unpacking $name $version"
  # The marker comes last: an unpacking that was cut short is simply repeated.
  python3 -m zipfile -e "$wheel" "$root_folder" || fail "cannot unpack $wheel" "is the disk full? $(df -h "$cache" | tail -n 1)"
  touch "$marker"
  rm -f "$wheel"
done <"$lock"
touch "$root_folder/.installed/complete-$with_cuda"
say "LibTorch $torch_version is in $root_folder/torch"
