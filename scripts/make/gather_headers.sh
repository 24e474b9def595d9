#!/usr/bin/env bash
# Collects what hydrascope needs beside LibTorch and CUDA into one folder that travels to a machine without
# network and packages (scripts/gpu_kit.sh make; CMake's HYDRASCOPE_DEPENDENCIES):
#   gather_headers.sh FOLDER
# Headers of nlohmann/json, cxxopts, stb, Highway and those of Boost that Beast needs, GoogleTest's with its static
# libraries, Highway's and zlib's shared libraries, licences: some 15 MB. From the Debian packages that scripts/setup.sh installs; x86-64.
set -euo pipefail
fail() { printf 'error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2; exit 1; }
[ $# -eq 1 ] || fail "expected one folder, found $# arguments" "gather_headers.sh FOLDER"
case $1 in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; -*) fail "unknown option $1" ;; esac
folder=$1

packages=(nlohmann-json3-dev libcxxopts-dev libstb-dev libhwy-dev libhwy1 libboost-dev zlib1g-dev libgtest-dev libgmock-dev)
for package in "${packages[@]}"; do
  dpkg-query -W "$package" >/dev/null 2>&1 || fail "the package $package is not installed" "run scripts/setup.sh"
done

# Times stay as they are: made once more, the folder does not make a build compile everything again.
mkdir -p "$folder/include/stb" "$folder/lib" "$folder/licences"
include=/usr/include
cp -rp "$include/nlohmann" "$include/hwy" "$include/gtest" "$include/gmock" "$folder/include/"
cp -p "$include/cxxopts.hpp" "$include/zlib.h" "$include/zconf.h" "$folder/include/"
cp -p "$include"/stb/stb_image*.h "$include/stb/stb_truetype.h" "$folder/include/stb/"
server=$(dirname "${BASH_SOURCE[0]}")/../../app/serve/http_server.cpp
grep '^#include <boost/' "$server" | c++ -std=c++20 -M -x c++ - | grep -o "$include/boost/[^ ]*" |
  sed "s#^$include/##" | sort -u | tar -C "$include" -cT - | tar -C "$folder/include" -x
rm -rf "$folder/include/hwy/tests" "$folder/include/hwy/contrib"

libraries=$(dirname "$(dpkg -L libgtest-dev | grep '/libgtest\.a$')")
cp -p "$libraries"/libgtest.a "$libraries"/libgtest_main.a "$libraries"/libgmock.a "$libraries"/libgmock_main.a "$folder/lib/"
# Under both names and not as links, which do not survive every way of copying.
for name in libhwy.so libhwy.so.1 libz.so libz.so.1; do cp -p --dereference "$libraries/$name" "$folder/lib/$name"; done

# Debian's own file names places of Debian.
mkdir -p "$folder/lib/cmake/GTest"
cat >"$folder/lib/cmake/GTest/GTestConfig.cmake" <<'END'
cmake_path(SET root NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")
find_package(Threads REQUIRED)
foreach(name gtest gmock gtest_main gmock_main)
  add_library(GTest::${name} STATIC IMPORTED)
  set_target_properties(GTest::${name} PROPERTIES
    IMPORTED_LOCATION "${root}/lib/lib${name}.a" INTERFACE_INCLUDE_DIRECTORIES "${root}/include")
endforeach()
target_link_libraries(GTest::gtest INTERFACE Threads::Threads)
target_link_libraries(GTest::gmock INTERFACE GTest::gtest)
target_link_libraries(GTest::gtest_main INTERFACE GTest::gtest)
target_link_libraries(GTest::gmock_main INTERFACE GTest::gmock)
END

for package in "${packages[@]}"; do
  cp "/usr/share/doc/$package/copyright" "$folder/licences/$package"
  dpkg-query -W "$package"
done >"$folder/versions.txt"
printf '%s: %s kB\n' "$folder" "$(du -sk "$folder" | cut -f 1)" >&2
