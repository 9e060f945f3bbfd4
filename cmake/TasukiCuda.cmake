# The CUDA backend, libtasuki_cuda.so: whether it is built, with what, and how.
#
#   TASUKI_CUDA                AUTO  on when nvcc and the libraries are found
#                              ON    an error when anything is missing
#                              OFF
#   TASUKI_CUDA_ARCHITECTURES  compute capabilities, e.g. "80;90", or "release": all from 75 to 100
#                              and PTX for later ones
#
# nvcc, cuDNN 9 and NCCL are looked for in the system's folders, in CUDA_HOME and CUDA_PATH, and in
# the folders of NVIDIA's Python wheels (site-packages/nvidia/*). libcuda, the driver's library, is
# never linked (tensor/cuda_loader.hpp).
#
# tasuki_cuda_library() makes the library from the folders cuda/ of the layers. They see what their
# layer sees, and CUDA; nothing else sees them.

set(TASUKI_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE TASUKI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TASUKI_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities, or release for all")
set(TASUKI_HAS_CUDA FALSE)
set(TASUKI_CUDA_STATUS "off")

# Why there will be no CUDA backend: fatal when it was asked for.
macro(tasuki_no_cuda reason)
  if(NOT TASUKI_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "TASUKI_CUDA=${TASUKI_CUDA}: ${reason}")
  endif()
  set(TASUKI_CUDA_STATUS "off: ${reason}")
endmacro()

# Folders that may hold bin/, include/ and lib/ of CUDA, cuDNN and NCCL, besides the system's.
function(tasuki_cuda_places result)
  set(wheels
      "import glob, site, sysconfig"
      "roots = {sysconfig.get_path('purelib'), *site.getsitepackages(), site.getusersitepackages()}"
      "print('|'.join(sorted(d for r in roots for d in glob.glob(r + '/nvidia/*'))))")
  list(JOIN wheels "\n" wheels)
  execute_process(COMMAND python3 -c "${wheels}" OUTPUT_VARIABLE found ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "|" ";" found "${found}")  # a list would have split the program above
  set(places $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda ${found})
  list(REMOVE_DUPLICATES places)
  set(${result} ${places} PARENT_SCOPE)
endfunction()

if(TASUKI_CUDA STREQUAL AUTO AND TASUKI_SANITIZE)
  tasuki_no_cuda("sanitizers are on")
elseif(TASUKI_CUDA)
  tasuki_cuda_places(cuda_places)
  find_program(TASUKI_NVCC nvcc HINTS ${cuda_places} PATH_SUFFIXES bin)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${cuda_places} PATH_SUFFIXES include)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${cuda_places} PATH_SUFFIXES include)
  # Wheels have no links without a version.
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cuda_places} PATH_SUFFIXES lib lib64)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${cuda_places} PATH_SUFFIXES lib lib64)
  find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12
               HINTS ${cuda_places} PATH_SUFFIXES lib lib64)
  if(NOT TASUKI_NVCC)
    tasuki_no_cuda("nvcc was not found")
  elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    tasuki_no_cuda("cuDNN 9 was not found (set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY)")
  elseif(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    tasuki_no_cuda("NCCL was not found (set NCCL_INCLUDE_DIR and NCCL_LIBRARY)")
  elseif(NOT CUBLASLT_LIBRARY)
    tasuki_no_cuda("cuBLASLt was not found (set CUBLASLT_LIBRARY)")
  else()
    set(TASUKI_HAS_CUDA TRUE)
  endif()
endif()

if(TASUKI_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${TASUKI_NVCC} CACHE FILEPATH "CUDA compiler")
  if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
  if(TASUKI_CUDA_ARCHITECTURES STREQUAL release)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100)
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${TASUKI_CUDA_ARCHITECTURES})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows no C++20 for nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  # CMake finds the toolkit by libcudart.so, a link that wheels do not have.
  get_filename_component(nvcc_folder ${TASUKI_NVCC} DIRECTORY)
  find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12
               HINTS ${nvcc_folder}/.. ${cuda_places} PATH_SUFFIXES lib64 lib)
  find_package(CUDAToolkit REQUIRED)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
    message(FATAL_ERROR "CUDA 12 or 13 expected, found ${CMAKE_CUDA_COMPILER_VERSION} in "
                        "${TASUKI_NVCC}; set TASUKI_NVCC, or TASUKI_CUDA=OFF")
  endif()

  function(tasuki_header_version result file major minor patch)
    set(version)
    foreach(name ${major} ${minor} ${patch})
      file(STRINGS ${file} line REGEX "^#define ${name} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX REPLACE "^#define ${name} +([0-9]+).*" "\\1" number "${line}")
      list(APPEND version "${number}")
    endforeach()
    list(JOIN version "." version)
    set(${result} ${version} PARENT_SCOPE)
  endfunction()
  tasuki_header_version(CUDNN_VERSION ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_MAJOR CUDNN_MINOR
                        CUDNN_PATCHLEVEL)
  tasuki_header_version(NCCL_VERSION ${NCCL_INCLUDE_DIR}/nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
  if(NOT CUDNN_VERSION MATCHES "^9\\.")
    message(FATAL_ERROR "cuDNN 9 expected, found ${CUDNN_VERSION} in ${CUDNN_INCLUDE_DIR}; set "
                        "CUDNN_INCLUDE_DIR and CUDNN_LIBRARY, or TASUKI_CUDA=OFF")
  endif()
  list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
  set(TASUKI_CUDA_STATUS "${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}, cuDNN \
${CUDNN_VERSION}, NCCL ${NCCL_VERSION}")

  # What sources in cuda/ are compiled with, besides what their layer is.
  add_library(tasuki_cuda_compiler INTERFACE)
  target_include_directories(tasuki_cuda_compiler SYSTEM
                             INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR}
                                       ${NCCL_INCLUDE_DIR})
  # Kernels use constexpr functions such as philox().
  target_compile_options(
    tasuki_cuda_compiler
    INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>")
  if(TASUKI_CUDA_WERROR)
    target_compile_options(tasuki_cuda_compiler
                           INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;\
-Xcompiler=-Werror>")
  endif()
endif()

# libtasuki_cuda.so, from tensor/cuda and communicator/cuda.
function(tasuki_cuda_library)
  if(NOT TASUKI_HAS_CUDA)
    return()
  endif()
  add_library(tasuki_cuda SHARED)
  set_target_properties(tasuki_cuda PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN")
  foreach(layer tensor communicator)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${layer}/cuda/*.cpp
         ${PROJECT_SOURCE_DIR}/${layer}/cuda/*.hpp ${PROJECT_SOURCE_DIR}/${layer}/cuda/*.cu)
    if(NOT sources)
      continue()
    endif()
    add_library(tasuki_cuda_${layer} OBJECT ${sources})
    target_link_libraries(tasuki_cuda_${layer} PRIVATE tasuki::${layer} tasuki_compiler
                                                       tasuki_cuda_compiler)
    target_compile_definitions(tasuki_cuda_${layer}
                               PRIVATE TASUKI_PROJECT_VERSION="${PROJECT_VERSION}")
    target_sources(tasuki_cuda PRIVATE $<TARGET_OBJECTS:tasuki_cuda_${layer}>)
  endforeach()
  # The CUDA runtime is linked statically, so that it needs no file of its own at run time.
  set(runtime CUDA::cudart)
  if(TARGET CUDA::cudart_static)
    set(runtime CUDA::cudart_static)
  endif()
  target_link_libraries(tasuki_cuda PRIVATE tasuki tasuki_compiler ${CUBLASLT_LIBRARY}
                                            ${CUDNN_LIBRARY} ${NCCL_LIBRARY} ${runtime})
  target_link_options(tasuki_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed
                                          LINKER:--no-undefined)
  install(TARGETS tasuki_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()
