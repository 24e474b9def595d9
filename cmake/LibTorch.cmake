# Imports LibTorch from an unpacked PyPI wheel as the target hydrascope::torch.
#
# find_package(Torch) wants a CUDA toolkit even for a CPU build, fails with CUDA 13 on CMake 3.25 and
# injects flags; the two libraries that a CPU program needs are imported directly instead. The CUDA
# library is never linked: model/device.cpp loads it when a GPU is asked for, so that a run on the
# CPU starts without mapping it.
#
# HYDRASCOPE_LIBTORCH (variable or environment): the folder that holds include/ and lib/; default: what
# scripts/setup.sh put below HYDRASCOPE_CACHE.
set(HYDRASCOPE_TORCH_VERSION 2.11.0)

function(hydrascope_default_cache result)
  if(DEFINED ENV{HYDRASCOPE_CACHE})
    set(${result} "$ENV{HYDRASCOPE_CACHE}" PARENT_SCOPE)
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(${result} "$ENV{XDG_CACHE_HOME}/hydrascope" PARENT_SCOPE)
  else()
    set(${result} "$ENV{HOME}/.cache/hydrascope" PARENT_SCOPE)
  endif()
endfunction()

if(NOT HYDRASCOPE_LIBTORCH)
  if(DEFINED ENV{HYDRASCOPE_LIBTORCH})
    set(HYDRASCOPE_LIBTORCH "$ENV{HYDRASCOPE_LIBTORCH}")
  else()
    hydrascope_default_cache(cache)
    set(HYDRASCOPE_LIBTORCH "${cache}/libtorch-${HYDRASCOPE_TORCH_VERSION}/torch")
  endif()
endif()
set(HYDRASCOPE_LIBTORCH "${HYDRASCOPE_LIBTORCH}" CACHE PATH "Folder of LibTorch: holds include/ and lib/")

foreach(piece include/ATen/ATen.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS "${HYDRASCOPE_LIBTORCH}/${piece}")
    message(FATAL_ERROR "LibTorch is not in ${HYDRASCOPE_LIBTORCH} (no ${piece}). "
            "Run scripts/setup.sh, or set HYDRASCOPE_LIBTORCH to a folder that holds include/ and lib/.")
  endif()
endforeach()
file(STRINGS "${HYDRASCOPE_LIBTORCH}/include/torch/headeronly/version.h" version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" version_lines "${version_lines}")
list(JOIN version_lines "." HYDRASCOPE_TORCH_FOUND)
if(HYDRASCOPE_TORCH_FOUND VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch in ${HYDRASCOPE_LIBTORCH} is ${HYDRASCOPE_TORCH_FOUND}; 2.11 or newer is needed.")
endif()

foreach(library torch_cpu c10)
  add_library(hydrascope::${library} SHARED IMPORTED)
  set_target_properties(hydrascope::${library} PROPERTIES
    IMPORTED_LOCATION "${HYDRASCOPE_LIBTORCH}/lib/lib${library}.so")
endforeach()
add_library(hydrascope_torch INTERFACE)
add_library(hydrascope::torch ALIAS hydrascope_torch)
target_include_directories(hydrascope_torch SYSTEM INTERFACE
  "${HYDRASCOPE_LIBTORCH}/include" "${HYDRASCOPE_LIBTORCH}/include/torch/csrc/api/include")
target_link_libraries(hydrascope_torch INTERFACE hydrascope::torch_cpu hydrascope::c10 ${CMAKE_DL_LIBS})
# DT_RPATH, not DT_RUNPATH: it also counts for the libraries that LibTorch's own libraries need.
target_link_options(hydrascope_torch INTERFACE -Wl,--disable-new-dtags)

# libtorch_cpu.so of the CUDA wheel needs libcudart and libcupti at load time. The wheel's own RPATH
# finds ../../nvidia/cu13/lib; a toolkit may serve instead.
set(HYDRASCOPE_RUNTIME_PATHS "${HYDRASCOPE_LIBTORCH}/lib")
cmake_path(GET HYDRASCOPE_LIBTORCH PARENT_PATH torch_parent)
if(NOT EXISTS "${torch_parent}/nvidia/cu13/lib/libcupti.so.13")
  find_library(HYDRASCOPE_CUPTI NAMES libcupti.so.13 PATHS /usr/local/cuda /usr/local/cuda/extras/CUPTI
               ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)
  if(HYDRASCOPE_CUPTI)
    cmake_path(GET HYDRASCOPE_CUPTI PARENT_PATH cupti_folder)
    list(APPEND HYDRASCOPE_RUNTIME_PATHS "${cupti_folder}")
  elseif(EXISTS "${torch_parent}/nvidia")
    message(FATAL_ERROR "libcupti.so.13 is missing in ${torch_parent}/nvidia/cu13/lib. Run scripts/setup.sh again.")
  endif()
endif()
# pip's CUDA packages: cuBLASLt's library is there where the toolkit has none.
if(IS_DIRECTORY "${torch_parent}/nvidia/cu13/lib")
  list(APPEND HYDRASCOPE_RUNTIME_PATHS "${torch_parent}/nvidia/cu13/lib")
endif()
# The modules of OpenCV lie beside the program, or above it where it is a test.
set(CMAKE_BUILD_RPATH ${HYDRASCOPE_RUNTIME_PATHS} "$ORIGIN" "$ORIGIN/..")
message(STATUS "LibTorch ${HYDRASCOPE_TORCH_FOUND}: ${HYDRASCOPE_LIBTORCH}")
