# Parts that are free of LibTorch under AddressSanitizer and UBSan, which end a program at their first finding, with the library's
# assertions and the inputs that the fuzzers keep. The tests are the objects of the plain programs: the code under test is
# compiled once more, its tests are not. Nothing where the whole build is sanitized already.
if(HYDRASCOPE_SANITIZE)
  return()
endif()

# hydrascope_sanitized_copy(TARGET LIBRARY FLAG...): the library's sources once more, as objects.
function(hydrascope_sanitized_copy target library)
  get_target_property(sources ${library} SOURCES)
  get_target_property(folder ${library} SOURCE_DIR)
  list(TRANSFORM sources PREPEND ${folder}/ REGEX "^[^/]")
  add_library(${target} OBJECT ${sources})
  add_dependencies(${target} ${library})  # makes the sources that are generated
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PUBLIC hydrascope_compiler hydrascope_json hydrascope_stb hydrascope_cxxopts
    hydrascope_opencv_modules ZLIB::ZLIB ${CMAKE_DL_LIBS} Threads::Threads)
  if(HYDRASCOPE_WITH_OPENCV)
    target_link_libraries(${target} PUBLIC hydrascope_opencv)
  endif()
  target_compile_options(${target} PUBLIC -O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all ${ARGN})
  target_link_options(${target} PUBLIC ${ARGN})
endfunction()

set(sanitized)
foreach(library files formats image config log zoom viz cli)
  hydrascope_sanitized_copy(asan_${library} hydrascope_${library} -fsanitize=address,undefined)
  if(library MATCHES "config|log|zoom|cli")  # their tests take no time, and -O0 compiles in half of -O1's
    target_compile_options(asan_${library} PRIVATE -O0)
  endif()
  target_compile_definitions(asan_${library} PUBLIC _GLIBCXX_ASSERTIONS)
  list(APPEND sanitized asan_${library})
endforeach()
# hydrascope_sanitized_tests(TARGET SHARDS PROGRAM LIBRARY...): the tests of PROGRAM over sanitized libraries. They come as
# an archive, because the first definition of an inline function counts: the libraries' objects stand before it.
function(hydrascope_sanitized_tests target shards program)
  add_library(${target}_archive STATIC $<TARGET_OBJECTS:${program}>)
  set_target_properties(${target}_archive PROPERTIES LINKER_LANGUAGE CXX)
  list(POP_FRONT ARGN first)
  hydrascope_test_program(${target} SHARDS ${shards} LABELS unit
    SOURCES $<TARGET_OBJECTS:${first}>
    LIBRARIES ${ARGN} $<LINK_LIBRARY:WHOLE_ARCHIVE,${target}_archive> hydrascope_kernels)
endfunction()
hydrascope_sanitized_tests(unit_tests_asan 2 unit_tests ${sanitized})
hydrascope_sanitized_tests(viz_tests_asan 1 viz_tests asan_files asan_image asan_viz)

# One program of all fuzz targets: their functions of one name get the target's.
file(GLOB fuzz_targets CONFIGURE_DEPENDS fuzz/*_fuzz.cpp)
set(fuzz_names)
foreach(file IN LISTS fuzz_targets)
  cmake_path(GET file STEM name)
  string(REGEX REPLACE "_fuzz$" "" name ${name})
  string(APPEND fuzz_names " HYDRASCOPE_TARGET(${name})")
  set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_DEFINITIONS
    "LLVMFuzzerTestOneInput=fuzz_${name};LLVMFuzzerCustomMutator=mutate_${name}")
  add_test(NAME fuzz.${name} COMMAND ${PROJECT_SOURCE_DIR}/scripts/fuzz.sh ${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 3600 SKIP_RETURN_CODE 77)
endforeach()
set_source_files_properties(fuzz/corpus_test.cpp PROPERTIES COMPILE_DEFINITIONS "HYDRASCOPE_FUZZ_TARGETS=${fuzz_names}")
hydrascope_test_program(fuzz_corpus_tests SHARDS 1 LABELS unit
  SOURCES fuzz/corpus_test.cpp ${fuzz_targets}
    ${PROJECT_SOURCE_DIR}/model/training/distillation/conversion_history.cpp
  LIBRARIES ${sanitized} hydrascope_kernels)
