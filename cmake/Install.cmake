# What `cmake --install FOLDER --prefix PREFIX` lays out and CPack packs: a tree that runs wherever it lies.
#   bin/hydrascope           the program
#   libexec/hydrascope/      the engines that it starts
#   lib/hydrascope/          OpenCV's modules, and the libraries that the programs are linked with: LibTorch's, libjpeg,
#                            zlib, Highway. The C and C++ libraries are the system's, as is OpenCV, which brings 140 libraries
#                            with it, some of them under the GPL; without it there are no WebP, TIFF and video.
#   lib/, include/           the library for other programs, its header and what find_package needs
#   share/hydrascope/        models, class names, pictures, fonts
#   share/bash-completion, share/zsh, share/fish
#   share/doc/hydrascope/    these pages, and the licences of everything in the tree
set(HYDRASCOPE_LIBRARY_FOLDER lib/hydrascope)

# hydrascope_install(FOLDER TARGET...): installs programs and libraries to PREFIX/FOLDER, whose run paths lead from
# there to the libraries of the tree. The libraries that they are linked with are installed, too.
# A run path that CMake itself changes at installation has an empty last element in the build, which the loader takes
# for the current folder: hence the build's is linked in as if it were final, and replaced here.
function(hydrascope_install folder)
  file(RELATIVE_PATH libraries "/${folder}" "/${HYDRASCOPE_LIBRARY_FOLDER}")
  set_target_properties(${ARGN} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${CMAKE_BUILD_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON)
  foreach(target ${ARGN})
    get_target_property(kind ${target} TYPE)
    set(dependencies RUNTIME_DEPENDENCY_SET hydrascope_dependencies)
    if(kind STREQUAL MODULE_LIBRARY)  # OpenCV's
      set(dependencies "")
    endif()
    install(TARGETS ${target} ${dependencies} RUNTIME DESTINATION ${folder} LIBRARY DESTINATION ${folder})
    install(CODE "
      file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\"
           NEW_RPATH \"\\\$ORIGIN/${libraries}\")")
  endforeach()
endfunction()
hydrascope_install(bin hydrascope)
hydrascope_install(libexec/hydrascope hydrascope_engine hydrascope_trainer)
if(HYDRASCOPE_WITH_OPENCV)
  hydrascope_install(${HYDRASCOPE_LIBRARY_FOLDER} hydrascope_opencv_pictures hydrascope_opencv_video)
endif()
# The library for other programs: find_package(hydrascope).
hydrascope_install(lib hydrascope_library)
install(FILES ${PROJECT_SOURCE_DIR}/app/library/include/hydrascope/hydrascope.h DESTINATION include/hydrascope)
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hydrascopeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/hydrascopeConfig.cmake INSTALL_DESTINATION lib/cmake/hydrascope)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hydrascopeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hydrascopeConfig.cmake ${PROJECT_BINARY_DIR}/hydrascopeConfigVersion.cmake
        DESTINATION lib/cmake/hydrascope)
install(RUNTIME_DEPENDENCY_SET hydrascope_dependencies
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|util|pthread|gcc_s|stdc\\+\\+)\\.so"
  LIBRARY DESTINATION ${HYDRASCOPE_LIBRARY_FOLDER})

# A fifth of LibTorch's library is its table of symbols, which nothing that runs needs.
install(CODE "
  if(CMAKE_INSTALL_DO_STRIP)
    execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${HYDRASCOPE_LIBRARY_FOLDER}/libtorch_cpu.so\" COMMAND_ERROR_IS_FATAL ANY)
  endif()")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/assets/models ${PROJECT_SOURCE_DIR}/assets/labels
                  ${PROJECT_SOURCE_DIR}/assets/images ${PROJECT_SOURCE_DIR}/assets/fonts
                  ${PROJECT_SOURCE_DIR}/assets/completion DESTINATION share/hydrascope)
install(FILES ${PROJECT_SOURCE_DIR}/assets/NOTICE ${PROJECT_SOURCE_DIR}/assets/self_test.safetensors
        DESTINATION share/hydrascope)

set(completion ${PROJECT_SOURCE_DIR}/assets/completion)
install(FILES ${completion}/bash DESTINATION share/bash-completion/completions RENAME hydrascope)
install(FILES ${completion}/zsh DESTINATION share/zsh/site-functions RENAME _hydrascope)
install(FILES ${completion}/fish DESTINATION share/fish/vendor_completions.d RENAME hydrascope.fish)

set(pages share/doc/hydrascope)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/README.md
              ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${pages})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${pages}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.ipynb" PATTERN "measurements" EXCLUDE PATTERN "notes" EXCLUDE
        PATTERN "site" EXCLUDE)
# Licences of what is carried or compiled in, from the wheels and Debian's packages that it comes from.
cmake_path(GET HYDRASCOPE_LIBTORCH PARENT_PATH wheels)
foreach(wheel torch nvidia_cuda_runtime nvidia_cuda_cupti)
  file(GLOB texts ${wheels}/${wheel}-*.dist-info/licenses/*)
  install(FILES ${texts} DESTINATION ${pages}/licences/${wheel})
endforeach()
foreach(package nlohmann-json3-dev libcxxopts-dev libstb-dev libhwy-dev libboost-dev libjpeg62-turbo-dev zlib1g-dev libgcc-s1)
  foreach(text /usr/share/doc/${package}/copyright ${HYDRASCOPE_DEPENDENCIES}/licences/${package})
    if(EXISTS ${text} AND NOT IS_DIRECTORY ${text})
      install(FILES ${text} DESTINATION ${pages}/licences RENAME ${package})
      break()
    endif()
  endforeach()
endforeach()
if(EXISTS /usr/share/common-licenses/GPL-3)  # of libgomp, which GCC's exception adds to
  install(FILES /usr/share/common-licenses/GPL-3 DESTINATION ${pages}/licences)
endif()

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME hydrascope-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_PACKAGE_VENDOR "the hydrascope authors")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
