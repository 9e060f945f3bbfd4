# Compiler flags for every target: C++20, warnings, the portable baseline, sanitizers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET default)

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  else()
    set(CMAKE_BUILD_TYPE Release)  # of Tasuki's targets alone
  endif()
endif()

# With a base directory ccache makes paths below the checkout relative, so that clones at different
# places share what was compiled (not with -g: debuggers want to find the sources). A base directory
# or a launcher of the user's stays.
find_program(CCACHE_PROGRAM ccache)
set(TASUKI_CCACHE)
if(CCACHE_PROGRAM)
  execute_process(COMMAND ${CCACHE_PROGRAM} --get-config base_dir OUTPUT_VARIABLE base_of_user
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(TASUKI_CCACHE ${CMAKE_COMMAND} -E env)
  if(TASUKI_PRECOMPILES)
    # What a cache has to overlook to take precompiled headers.
    execute_process(COMMAND ${CCACHE_PROGRAM} --get-config sloppiness OUTPUT_VARIABLE overlooked
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REPLACE " " "" overlooked "${overlooked},pch_defines,time_macros")
    string(REGEX REPLACE "^," "" overlooked "${overlooked}")
    list(APPEND TASUKI_CCACHE CCACHE_SLOPPINESS=${overlooked})
  endif()
  if(NOT base_of_user)
    list(APPEND TASUKI_CCACHE CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
  endif()
  list(APPEND TASUKI_CCACHE ${CCACHE_PROGRAM})
endif()
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TASUKI_CCACHE})
endif()

add_library(tasuki_compiler INTERFACE)
# nvcc has its own (cmake/TasukiCuda.cmake).
function(tasuki_compile_options)
  target_compile_options(tasuki_compiler INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${ARGN}>")
endfunction()
tasuki_compile_options(-Wall -Wextra)
# Ranks on different machines update their own copies of the weights: a loop must round alike
# whether its version for this processor could fuse multiply and add or not. No code reads errno
# after sqrt or the flags of floating-point exceptions, which otherwise keep loops from being
# vectorised.
tasuki_compile_options(-ffp-contract=off -fno-math-errno -fno-trapping-math)
if(TASUKI_WERROR)
  tasuki_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC 12 reports overlapping copies in std::string that are not there (GCC bug 105329).
  tasuki_compile_options(-Wno-restrict)
endif()
if(TASUKI_COMPILES_GROUPS)
  # In groups GCC takes sources for headers, whose classes should not use types of unnamed namespaces.
  # For all targets, since precompiled headers need the same flags.
  tasuki_compile_options(-Wno-subobject-linkage)
endif()
# One binary for every x86-64 machine since about 2010; loops that gain from more are dispatched at
# run time (tensor/vectorize.hpp), as they are in oneDNN. A processor in the user's flags
# (CXXFLAGS, CMAKE_CXX_FLAGS) wins: options of targets come after those flags and would replace it.
string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" flags_of_build_type)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64
   AND NOT "${CMAKE_CXX_FLAGS} ${${flags_of_build_type}}" MATCHES "(^| )-march=")
  tasuki_compile_options(-march=x86-64-v2)
endif()
if(TASUKI_SANITIZE)
  tasuki_compile_options(-fsanitize=${TASUKI_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(tasuki_compiler INTERFACE -fsanitize=${TASUKI_SANITIZE})
endif()

# tasuki_kernels(<file> [<level of x86-64> [<option>...]]): inner loops whose results stay on a rank,
# so that they may fuse multiply and add; for one kind of processor if a level is given (the file's
# functions are then called on such processors only, and it must include no functions that others
# share).
function(tasuki_kernels file)
  set(options -O3 -ffp-contract=fast)
  if(ARGN AND CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    list(POP_FRONT ARGN level)
    list(APPEND options -march=${level} ${ARGN})
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND level STREQUAL x86-64-v4)
      list(APPEND options -mprefer-vector-width=512)  # otherwise it halves vectors of this width
    endif()
  endif()
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options}"
                                                 SKIP_PRECOMPILE_HEADERS ON)
endfunction()
