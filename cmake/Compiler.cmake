# Language level, warnings, sanitizers, ccache. Flags reach our own targets only, through the
# interface target hydrascope_compiler.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT HYDRASCOPE_KERNELS_ONLY)
  message(FATAL_ERROR "hydrascope builds on x86-64 only for now: the pinned LibTorch is for that processor. "
          "HYDRASCOPE_KERNELS_ONLY=ON builds the kernels, the plan that runs them and their tests on AArch64, too.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# `cmake --compile-no-warning-as-error` lets a newer compiler's new warnings pass.
set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
# LibTorch's debug information is absent anyway; -g1 keeps line numbers at a third of the size.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# ccache pays for those who build again and again; a first build only fills it, a third slower.
option(HYDRASCOPE_CCACHE "Compile through ccache" OFF)
if(HYDRASCOPE_CCACHE)
  find_program(CCACHE_PROGRAM ccache REQUIRED)
  # sloppiness: without it ccache refuses every file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
# Several sources are compiled as one: a source that uses LibTorch pays seconds before its own first line.
# Names in anonymous namespaces must therefore be unique within a library. Turned off, a change of one file
# compiles that file alone.
option(HYDRASCOPE_UNITY "Compile several sources as one" ON)
set(CMAKE_UNITY_BUILD ${HYDRASCOPE_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

add_library(hydrascope_compiler INTERFACE)
target_compile_options(hydrascope_compiler INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion>)
target_include_directories(hydrascope_compiler INTERFACE ${PROJECT_SOURCE_DIR})
if(HYDRASCOPE_UNITY)
  # A .cpp that another one includes looks like a header: what its anonymous namespace holds is no mistake there.
  target_compile_options(hydrascope_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(HYDRASCOPE_CCACHE)
  # Lets ccache hit across precompiled-header rebuilds of equal content.
  target_compile_options(hydrascope_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
if(HYDRASCOPE_SANITIZE)
  target_compile_options(hydrascope_compiler INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${HYDRASCOPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(hydrascope_compiler INTERFACE -fsanitize=${HYDRASCOPE_SANITIZE})
endif()

# Programs and libraries are at addresses that nobody knows, and nothing of them that is resolved at their start can
# be written later. tests/supply_test.py reads it off what was built.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
# Code that reads files of strangers, and all of the program that is not arithmetic, also checks the sizes of buffers that
# the compiler knows, and that the stack is whole. Kernels and LibTorch's users are left as they are.
add_library(hydrascope_hardened INTERFACE)
if(NOT HYDRASCOPE_SANITIZE)
  target_compile_options(hydrascope_hardened INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong>)
endif()

# Code that calls LibTorch, parses or prints has no hot loop of its own. -O1 compiles it in three quarters of -O2's
# time, and small functions are inlined as by -O2, because the standard library's containers are made of them.
add_library(hydrascope_glue INTERFACE)
target_compile_options(hydrascope_glue INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1 -finline-small-functions -findirect-inlining -fpartial-inlining>)

# A test runs its lines a few times, and compiles in two thirds of -O1's time.
add_library(hydrascope_run_seldom INTERFACE)
target_compile_options(hydrascope_run_seldom INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)

# hydrascope_library(TARGET [OBJECT] FOLDERS ... SOURCES ... EXCEPT regex... PUBLIC ... PRIVATE ...)
#   A library of the sources that the folders hold themselves (not the folders below), and of single ones; EXCEPT
#   leaves out what matches. PUBLIC and PRIVATE: what it links.
function(hydrascope_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OBJECT" "" "FOLDERS;SOURCES;EXCEPT;PUBLIC;PRIVATE")
  set(sources)
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  foreach(pattern IN LISTS arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  set(kind STATIC)
  if(arg_OBJECT)
    set(kind OBJECT)
  endif()
  add_library(${target} ${kind} ${sources} ${arg_SOURCES})
  target_link_libraries(${target} PUBLIC hydrascope_compiler ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# LibTorch's headers are most of what a source that uses them compiles: `target` takes those that were compiled
# for the model. They were compiled with -fPIC, and programs get -fPIE: one of them has to give way.
function(hydrascope_reuse_torch_header target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE hydrascope_glue)  # a header is of its compiler's options
  target_precompile_headers(${target} REUSE_FROM hydrascope_model)
endfunction()
