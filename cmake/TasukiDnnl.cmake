# oneDNN as the target DNNL::dnnl: what DNNL_INCLUDE_DIR and DNNL_LIBRARY name; or the CMake package
# that dnnl_DIR or dnnl_ROOT names; or what is found in the folders that CMake searches, by the CMake
# package or by pkg-config. A package that nobody named comes after the search, because Debian 12's
# ends the configuration where OpenCL is missing, which Tasuki does not need.

set(dnnl_remedy "set DNNL_INCLUDE_DIR and DNNL_LIBRARY to another one")
set(dnnl_header ${DNNL_INCLUDE_DIR})
set(dnnl_file ${DNNL_LIBRARY})
if(NOT (dnnl_header AND dnnl_file))
  if(dnnl_DIR OR dnnl_ROOT OR DEFINED ENV{dnnl_ROOT})
    find_package(dnnl CONFIG REQUIRED)
  else()
    find_path(dnnl_header dnnl.hpp NO_CACHE)
    find_library(dnnl_file dnnl NO_CACHE)
    if(NOT (dnnl_header AND dnnl_file))
      find_package(dnnl CONFIG QUIET)
    endif()
  endif()
endif()
if(NOT TARGET DNNL::dnnl AND dnnl_header AND dnnl_file)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${dnnl_file}
                                              INTERFACE_INCLUDE_DIRECTORIES ${dnnl_header})
endif()
if(NOT TARGET DNNL::dnnl)
  pkg_check_modules(dnnl QUIET IMPORTED_TARGET dnnl)
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN 2.6 to 3.x expected, found none; install libdnnl-dev, or set "
                        "DNNL_INCLUDE_DIR and DNNL_LIBRARY")
  endif()
  add_library(DNNL::dnnl ALIAS PkgConfig::dnnl)
endif()

# What its headers say, as DNNL_VERSION and DNNL_CPU_RUNTIME.
get_target_property(dnnl_folders DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
find_path(dnnl_headers dnnl_config.h PATHS ${dnnl_folders} PATH_SUFFIXES oneapi/dnnl NO_CACHE
          NO_DEFAULT_PATH)
find_path(dnnl_headers dnnl_config.h PATH_SUFFIXES oneapi/dnnl NO_CACHE REQUIRED)
file(STRINGS ${dnnl_headers}/dnnl_version.h DNNL_VERSION
     REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
string(REGEX REPLACE "[^0-9;]" "" DNNL_VERSION "${DNNL_VERSION}")
string(REPLACE ";" "." DNNL_VERSION "${DNNL_VERSION}")
file(STRINGS ${dnnl_headers}/dnnl_config.h DNNL_CPU_RUNTIME
     REGEX "define DNNL_CPU_RUNTIME DNNL_RUNTIME_[A-Z]+")
string(REGEX REPLACE ".*DNNL_RUNTIME_" "" DNNL_CPU_RUNTIME "${DNNL_CPU_RUNTIME}")

if(DNNL_VERSION VERSION_LESS 2.6 OR DNNL_VERSION VERSION_GREATER_EQUAL 4)
  message(FATAL_ERROR "oneDNN 2.6 to 3.x expected, found ${DNNL_VERSION} in ${dnnl_headers}; "
                      "${dnnl_remedy}")
endif()
# Threads of other runtimes are neither limited by --threads nor treat subnormal numbers as zero.
if(NOT DNNL_CPU_RUNTIME MATCHES "^(OMP|SEQ)$")
  message(FATAL_ERROR "oneDNN with the CPU runtime OMP or SEQ expected, found "
                      "${DNNL_CPU_RUNTIME} in ${dnnl_headers}; ${dnnl_remedy}")
endif()
