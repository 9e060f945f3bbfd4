# Libraries Tasuki stands on. All are Debian/Ubuntu packages; scripts/dependencies.sh names them.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
set(MPI_CXX_SKIP_MPICXX ON)  # the C API alone
set(MPI_DETERMINE_LIBRARY_VERSION ON)
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
include(TasukiMpi)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED CONFIG COMPONENTS program_options)  # CMake 3.30 drops its own search
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)

add_library(libzip::zip ALIAS PkgConfig::libzip)
include(TasukiDnnl)
