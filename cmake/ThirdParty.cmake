# Header libraries and OpenCV from the system's packages; each missing piece is one message.
#
# HYDRASCOPE_DEPENDENCIES: a folder (include/ and lib/) that scripts/make/gather_headers.sh made elsewhere, for
# machines that cannot install packages. GoogleTest is found there too.
set(HYDRASCOPE_DEPENDENCIES "" CACHE PATH "Folder of header libraries, Highway and GoogleTest; empty: the system's")
if(HYDRASCOPE_DEPENDENCIES)
  if(NOT EXISTS "${HYDRASCOPE_DEPENDENCIES}/include/hwy/highway.h")
    message(FATAL_ERROR "HYDRASCOPE_DEPENDENCIES=${HYDRASCOPE_DEPENDENCIES} holds no include/hwy/highway.h: "
            "scripts/make/gather_headers.sh makes such a folder.")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH "${HYDRASCOPE_DEPENDENCIES}")
  list(APPEND CMAKE_BUILD_RPATH "${HYDRASCOPE_DEPENDENCIES}/lib")
endif()
# Further headers lie in the first one's folder.
function(hydrascope_header_library target header package)
  find_path(${target}_include ${header})
  foreach(wanted ${header} ${ARGN})
    if(NOT EXISTS "${${target}_include}/${wanted}")
      message(FATAL_ERROR "${wanted} is missing: scripts/setup.sh installs it (Debian package ${package}).")
    endif()
  endforeach()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_include})
endfunction()
hydrascope_header_library(hydrascope_highway hwy/highway.h libhwy-dev)
find_library(HYDRASCOPE_HIGHWAY_LIBRARY hwy REQUIRED)
target_link_libraries(hydrascope_highway INTERFACE ${HYDRASCOPE_HIGHWAY_LIBRARY})
# Highway's NEON functions are compiled for processors with AES, and g++ does not inline them into the constructors that
# it makes itself unless those are, too. No kernel uses AES.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_options(hydrascope_highway INTERFACE -march=armv8-a+crypto)
endif()
find_package(Threads REQUIRED)
if(HYDRASCOPE_KERNELS_ONLY)
  return()
endif()

hydrascope_header_library(hydrascope_json nlohmann/json.hpp nlohmann-json3-dev)
hydrascope_header_library(hydrascope_cxxopts cxxopts.hpp libcxxopts-dev)
hydrascope_header_library(hydrascope_stb stb/stb_image.h libstb-dev stb/stb_image_write.h stb/stb_truetype.h)
hydrascope_header_library(hydrascope_beast boost/beast/core.hpp libboost-dev)

find_package(ZLIB REQUIRED)  # PNG

# The wanted OpenCV modules only: Debian's OpenCVConfig.cmake demands every module's package.
set(HYDRASCOPE_WITH_OPENCV OFF)
string(TOUPPER "${HYDRASCOPE_OPENCV}" HYDRASCOPE_OPENCV)
if(NOT HYDRASCOPE_OPENCV MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "HYDRASCOPE_OPENCV is '${HYDRASCOPE_OPENCV}': AUTO, ON or OFF are accepted.")
endif()
if(HYDRASCOPE_OPENCV STREQUAL "OFF")
  message(STATUS "OpenCV: off, HYDRASCOPE_OPENCV=OFF; stb decodes and encodes, without WebP, TIFF and video")
else()
  find_path(HYDRASCOPE_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
  set(missing "")
  # Without its libraries: only two modules, which the program loads when it needs them, are linked to those.
  add_library(hydrascope_opencv INTERFACE)
  foreach(module core imgproc imgcodecs videoio)
    find_library(HYDRASCOPE_OPENCV_${module} opencv_${module})
    if(NOT HYDRASCOPE_OPENCV_${module})
      list(APPEND missing opencv_${module})
    endif()
  endforeach()
  if(HYDRASCOPE_OPENCV_INCLUDE AND NOT missing)
    set(HYDRASCOPE_WITH_OPENCV ON)
    target_include_directories(hydrascope_opencv SYSTEM INTERFACE ${HYDRASCOPE_OPENCV_INCLUDE})
    target_compile_definitions(hydrascope_opencv INTERFACE HYDRASCOPE_WITH_OPENCV)
    message(STATUS "OpenCV: ${HYDRASCOPE_OPENCV_INCLUDE}")
    # With its header, JPEGs are decoded without loading OpenCV, which decodes with the same library.
    find_package(JPEG QUIET)
    if(JPEG_FOUND)
      target_link_libraries(hydrascope_opencv INTERFACE JPEG::JPEG)
      target_compile_definitions(hydrascope_opencv INTERFACE HYDRASCOPE_WITH_JPEG)
    endif()
  elseif(HYDRASCOPE_OPENCV STREQUAL "ON")
    message(FATAL_ERROR "HYDRASCOPE_OPENCV=ON, but OpenCV is not complete (missing: opencv2/imgcodecs.hpp or ${missing}); "
            "scripts/setup.sh installs it.")
  else()
    message(STATUS "OpenCV: off, not found; stb decodes and encodes, without WebP, TIFF and video")
  endif()
endif()
