# Standard headers that many sources include, compiled once for each set of flags. Sources include
# what they use all the same: a build without TASUKI_PRECOMPILE_HEADERS does not compile otherwise.

set(TASUKI_PRECOMPILES OFF)
if(TASUKI_PRECOMPILE_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TASUKI_SANITIZE)
  set(TASUKI_PRECOMPILES ON)
endif()

# tasuki_precompiled(<kind> [LINK libs...] [OPTIONS flags...] [HEADERS headers...]): compiles the
# standard headers, and these, for targets of this kind, whose flags and definitions must include
# the same. A target that does not use fmt has DISABLE_PRECOMPILE_HEADERS.
function(tasuki_precompiled kind)
  cmake_parse_arguments(ARG "" "" "LINK;OPTIONS;HEADERS" ${ARGN})
  if(NOT TASUKI_PRECOMPILES)
    return()
  endif()
  set(name tasuki_precompiled_${kind})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/precompiled_${kind}.cpp)
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
  # For ccache. After an update of the compiler, headers that it does not take are a warning.
  set(options -fpch-preprocess -Wno-error=invalid-pch)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 forgets which of these headers are the system's, and reports copies in std::string that
    # are not there (as in GCC bug 105329).
    list(APPEND options -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
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

# For all targets of the project, after they were added. The kind "test" is made where tests are.
function(tasuki_precompile_headers)
  tasuki_precompiled(library)
  tasuki_precompiled(library_openmp LINK OpenMP::OpenMP_CXX)
  tasuki_precompiled(program OPTIONS -fPIE)
  if(TASUKI_PRECOMPILES)
    tasuki_precompile_folder(${PROJECT_SOURCE_DIR})
  endif()
endfunction()
