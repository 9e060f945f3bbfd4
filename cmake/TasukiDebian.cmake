# Packages for Debian, which scripts/packages.sh makes with CPack, from the components of TasukiInstall:
#
#   tasuki      runtime: programs, libraries, pages
#   tasuki-dev  development: headers, CMake package, pkg-config files, examples
#   tasuki-gpu  gpu: the CUDA backend, where it is built
#
# dpkg-shlibdeps finds the packages of the libraries that they need.

set(TASUKI_DEBIAN_MAINTAINER "Tasuki authors <tasuki@example.org>" CACHE STRING
    "Who answers for the Debian packages")
set(TASUKI_DEBIAN_REVISION 1 CACHE STRING "The part of the packages' version after the hyphen")

set(packages "runtime=tasuki" "development=tasuki-dev")
if(TARGET tasuki_cuda)
  list(APPEND packages "gpu=tasuki-gpu")
endif()

# --- the files that Debian wants of each package ---
string(TIMESTAMP changed "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where that is set
configure_file(${PROJECT_SOURCE_DIR}/packaging/debian/changelog.in
               ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
find_program(TASUKI_GZIP gzip REQUIRED)
execute_process(COMMAND ${TASUKI_GZIP} -9nc ${PROJECT_BINARY_DIR}/debian/changelog
                OUTPUT_FILE ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
                COMMAND_ERROR_IS_FATAL ANY)
foreach(pair IN LISTS packages)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
                ${PROJECT_SOURCE_DIR}/packaging/debian/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/${package}.lintian-overrides
          DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ${package}
          COMPONENT ${component})
  list(APPEND components ${component})
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${key}_PACKAGE_SOURCE tasuki)
endforeach()

# --- what all have ---
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tasuki)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${TASUKI_DEBIAN_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${TASUKI_DEBIAN_REVISION})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(same_build "tasuki (= ${PROJECT_VERSION}-${TASUKI_DEBIAN_REVISION})")
set(ldconfig ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
# CPack would begin each description with it.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(about "Tasuki trains neural networks on several cores, GPUs or machines at
once. Its processes talk to each other through MPI: each has the whole
model and a share of the data, and in each step they sum their gradients.
")

# --- tasuki ---
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "data-parallel training of neural networks over MPI
${about}
This package has the programs and the library. tasuki-run starts training
on one machine or on many; train_mnist and others train; tasuki-predict
applies what was trained.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${ldconfig})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "dataset-fashion-mnist, openssh-client")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS
    "curl | wget, gnuplot-nox | gnuplot, tasuki-dev, tasuki-gpu")

# --- tasuki-dev ---
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "headers and examples of Tasuki
${about}
This package has what programs of one's own need: the C++ headers, a CMake
package (find_package(tasuki)), files for pkg-config, and examples.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${same_build}, libfmt-dev, libopenmpi-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "cmake (>= 3.25), g++ (>= 4:12)")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libpng-dev, gfortran")  # examples

# --- tasuki-gpu ---
set(CPACK_DEBIAN_GPU_DESCRIPTION "backend of Tasuki for NVIDIA GPUs
${about}
This package has the backend that --gpu loads. It needs NVIDIA's driver,
cuBLASLt, cuDNN and NCCL: from NVIDIA's packages, from CUDA_HOME, or from
Python's folders of packages.")
set(CPACK_DEBIAN_GPU_PACKAGE_SECTION contrib/science)
set(CPACK_DEBIAN_GPU_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GPU_PACKAGE_CONTROL_EXTRA ${ldconfig})
set(CPACK_DEBIAN_GPU_PACKAGE_DEPENDS "${same_build}")
# NVIDIA's repository has these packages; Debian does not.
if(TARGET tasuki_cuda)
  string(REGEX MATCH "^[0-9]+" cuda ${CMAKE_CUDA_COMPILER_VERSION})
  string(REGEX MATCH "^[0-9]+[.][0-9]+" cuda_packages ${CMAKE_CUDA_COMPILER_VERSION})
  string(REPLACE "." "-" cuda_packages ${cuda_packages})
  set(CPACK_DEBIAN_GPU_PACKAGE_SUGGESTS
      "libcuda1, libcublas-${cuda_packages}, libcudnn9-cuda-${cuda}, libnccl2 (>= 2.19)")
  # The libraries that no package has are found here, and left out of Depends.
  foreach(library ${CUBLASLT_LIBRARY} ${CUDNN_LIBRARY} ${NCCL_LIBRARY})
    cmake_path(GET library PARENT_PATH folder)
    list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
  endforeach()
endif()
# So are Tasuki's own.
list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
list(REMOVE_DUPLICATES CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)

include(CPack)
