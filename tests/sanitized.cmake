# What is free of LibTorch under sanitizers, which end a program at their first finding: everything under
# AddressSanitizer and UBSan with the library's assertions, with the inputs that the fuzzers keep; what has threads
# under ThreadSanitizer, too. Nothing where the whole build is sanitized already.
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
foreach(library files formats image config log viz cli)
  hydrascope_sanitized_copy(asan_${library} hydrascope_${library} -fsanitize=address,undefined)
  target_compile_definitions(asan_${library} PUBLIC _GLIBCXX_ASSERTIONS)
  list(APPEND sanitized asan_${library})
endforeach()
hydrascope_test_program(unit_tests_asan SHARDS 2 LABELS unit
  SOURCES ${unit_tests}
  LIBRARIES ${sanitized} hydrascope_kernels)
# GCC 12 takes std::regex for uninitialised where sanitizers instrument it.
target_compile_options(unit_tests_asan PRIVATE -Wno-maybe-uninitialized)
hydrascope_test_program(viz_tests_asan SHARDS 1 LABELS unit
  SOURCES ${viz_tests}
  LIBRARIES asan_files asan_image asan_viz hydrascope_kernels)

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

# Threads: workers, progress, counts of inputs, signals, encoders, caches of pictures.
set(raced)
foreach(library files formats image config viz cli)
  hydrascope_sanitized_copy(tsan_${library} hydrascope_${library} -fsanitize=thread)
  list(APPEND raced tsan_${library})
endforeach()
hydrascope_test_program(thread_tests_tsan SHARDS 1 LABELS unit
  SOURCES app/pipeline/ordered_workers_test.cpp app/run/progress_test.cpp app/run/signal_stop_test.cpp
    app/pictures/inputs_test.cpp viz/picture/encode_test.cpp model/image/decode_test.cpp
  LIBRARIES ${raced} hydrascope_kernels)
set_property(TEST thread_tests_tsan APPEND PROPERTY ENVIRONMENT
  "TSAN_OPTIONS=halt_on_error=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/race_suppressions.txt")
