#!/usr/bin/env bash
# Makes the documentation's site in build/site/site/index.html: the pages of docs/, what the program's tables say of its
# commands, mechanisms and rules, and the tutorials (docs/tutorials/*.ipynb), which it runs. Fails where a notebook
# fails or a link is broken. Needs the release build; ends with 77 where the packages of scripts/site.lock cannot be had.
#   scripts/make_site.sh [--without-tutorials]
#   HYDRASCOPE_BUILD=FOLDER  where the build is (default: build/release)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${HYDRASCOPE_BUILD:-build/release}")
[ -x "$build/hydrascope" ] || { echo "error: there is no $build/hydrascope (scripts/build.sh makes it)" >&2; exit 1; }

environment=$(scripts/locked_venv.sh site) || { status=$?; echo "$environment"; exit $status; }

out=build/site
rm -rf "$out"
mkdir -p "$out/tutorials"
options=()
if [ "${1:-}" != --without-tutorials ]; then
  # They run in an empty folder, so that all files in it are theirs.
  cp docs/tutorials/*.ipynb "$out/tutorials/"
  (
    cd "$out/tutorials"
    export PATH=$environment/bin:$PATH PYTHONPATH=$PWD/../../../app/python HYDRASCOPE_TREE=$build JUPYTER_PLATFORM_DIRS=1
    export IPYTHONDIR=$PWD/.ipython JUPYTER_CONFIG_DIR=$PWD/.jupyter PYDEVD_DISABLE_FILE_VALIDATION=1
    for notebook in *.ipynb; do
      began=$SECONDS
      "$environment/bin/jupyter" nbconvert --log-level WARN --to markdown --execute --ExecutePreprocessor.timeout=600 --KernelManager.transport=ipc "$notebook" >&2
      echo "site: ran $notebook in $((SECONDS - began)) s" >&2
    done
    mkdir ../converted
    mv ./*.md ../converted/
    find . -maxdepth 1 -name '*_files' -exec mv {} ../converted/ \;
  )
  options=(--notebooks "$out/converted")
fi
"$environment/bin/python" -B docs/site/stage.py "$build/hydrascope" "$out" "${options[@]}"
"$environment/bin/pygmentize" -S default -f html -a .codehilite >"$out/pages/code.css"
"$environment/bin/mkdocs" --quiet build --strict --config-file "$out/mkdocs.yml"
"$environment/bin/python" -B docs/site/check.py "$out/site"
echo "site: $out/site/index.html" >&2
