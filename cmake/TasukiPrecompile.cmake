# Standard headers that many sources include, compiled once for each set of flags. Sources include
# what they use all the same: a build without TASUKI_PRECOMPILE_HEADERS does not compile otherwise.

set(precompile_by_default OFF)
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TASUKI_SANITIZE)
  set(precompile_by_default ON)
endif()
option(TASUKI_PRECOMPILE_HEADERS
       "Compile standard headers once (default: with GCC, if Tasuki is the whole project)"
       ${precompile_by_default})

# tasuki_precompiled(<kind> [LINK libs...] [OPTIONS flags...] [HEADERS headers...]): compiles the
# standard headers, and these, for targets of this kind, whose flags must be the same.
function(tasuki_precompiled kind)
  cmake_parse_arguments(ARG "" "" "LINK;OPTIONS;HEADERS" ${ARGN})
  set(name tasuki_precompiled_${kind})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${kind}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE tasuki_compiler fmt::fmt ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  if("-fPIE" IN_LIST ARG_OPTIONS)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_precompile_headers(
    ${name} PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional>
    <limits> <map> <memory> <mutex> <numeric> <optional> <span> <string> <string_view> <utility>
    <variant> <vector> <fmt/core.h> ${ARG_HEADERS})
endfunction()

# The kind of a target in a folder; empty if there is none for its flags.
function(tasuki_precompiled_kind target folder result)
  get_property(options_of_folder DIRECTORY ${folder} PROPERTY COMPILE_OPTIONS)
  get_target_property(type ${target} TYPE)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(kind)
  if(NOT "tasuki_compiler" IN_LIST libraries)
  elseif(options_of_folder MATCHES "-O1")  # tests/CMakeLists.txt
    if(type STREQUAL EXECUTABLE AND target MATCHES "^test_")
      set(kind test)
    endif()
  elseif(type STREQUAL EXECUTABLE)
    set(kind program)
  elseif(type MATCHES "^(OBJECT|STATIC|SHARED)_LIBRARY$")
    set(kind library)
  endif()
  if("OpenMP::OpenMP_CXX" IN_LIST libraries)
    string(APPEND kind _openmp)
  endif()
  if(NOT TARGET tasuki_precompiled_${kind})
    set(kind)
  endif()
  set(${result} "${kind}" PARENT_SCOPE)
endfunction()

function(tasuki_precompile_folder folder)
  # For ccache; and GCC 12 forgets which of these headers are the system's: it reports overlapping and
  # too long copies in std::string that are not there, as in GCC bug 105329.
  set(options -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets EXCLUDE REGEX "^tasuki_precompiled_")
  foreach(target IN LISTS targets)
    tasuki_precompiled_kind(${target} ${folder} kind)
    if(kind)
      target_precompile_headers(${target} REUSE_FROM tasuki_precompiled_${kind})
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
    endif()
  endforeach()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each IN LISTS below)
    tasuki_precompile_folder(${each})
  endforeach()
endfunction()

# For all targets of the project, after they were added.
function(tasuki_precompile_headers)
  if(NOT TASUKI_PRECOMPILE_HEADERS)
    return()
  endif()
  tasuki_precompiled(library)
  tasuki_precompiled(library_openmp LINK OpenMP::OpenMP_CXX)
  tasuki_precompiled(program OPTIONS -fPIE)
  if(TASUKI_BUILD_TESTS)
    tasuki_precompiled(test LINK GTest::gtest OPTIONS -fPIE $<$<CONFIG:Release>:-O1>
                       HEADERS <gtest/gtest.h>)
  endif()
  tasuki_precompile_folder(${PROJECT_SOURCE_DIR})
endfunction()
