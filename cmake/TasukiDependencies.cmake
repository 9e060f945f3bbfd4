# Libraries Tasuki stands on. All are Debian/Ubuntu packages; scripts/dependencies.sh names them.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
set(MPI_CXX_SKIP_MPICXX ON)  # the C API alone
set(MPI_DETERMINE_LIBRARY_VERSION ON)
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)

add_library(libzip::zip ALIAS PkgConfig::libzip)

# Debian's oneDNN installs a CMake package whose name changed over time; the header and the library
# are found directly.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h dnnl_version_line
     REGEX "DNNL_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
string(REGEX REPLACE "[^0-9;]" "" DNNL_VERSION "${dnnl_version_line}")
string(REPLACE ";" "." DNNL_VERSION "${DNNL_VERSION}")
if(NOT DNNL_VERSION MATCHES "^2\\.")
  message(FATAL_ERROR "oneDNN 2.x expected (Debian 12's libdnnl-dev), found ${DNNL_VERSION} in "
                      "${DNNL_INCLUDE_DIR}; set DNNL_INCLUDE_DIR and DNNL_LIBRARY to a 2.x one")
endif()
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
