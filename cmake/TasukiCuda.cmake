# The CUDA backend, libtasuki_cuda.so: whether it is built, with what, and how.
#
#   TASUKI_CUDA                AUTO  on when nvcc and the libraries are found and new enough; never
#                                    an error
#                              ON    an error when anything is missing
#                              OFF
#   TASUKI_CUDA_ARCHITECTURES  compute capabilities, e.g. "80;90", or "release": all from 75 to 100
#                              and PTX for later ones
#
# TasukiCudaParts.cmake says where nvcc and the libraries are looked for. libcuda, the driver's
# library, is never linked (tensor/cuda_loading/loader.hpp).
#
# tasuki_cuda_library() makes the library from the folders cuda/ of the layers. They see what their
# layer sees, and CUDA; nothing else sees them.

include(TasukiCudaParts)

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

if(TASUKI_CUDA_ARCHITECTURES STREQUAL release)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100)
else()
  set(CMAKE_CUDA_ARCHITECTURES ${TASUKI_CUDA_ARCHITECTURES})
endif()

if(TASUKI_CUDA STREQUAL AUTO AND TASUKI_SANITIZE)
  tasuki_no_cuda("sanitizers are on")
elseif(TASUKI_CUDA)
  tasuki_find_cuda_parts(why_no_cuda ${CMAKE_CUDA_ARCHITECTURES})
  if(why_no_cuda)
    tasuki_no_cuda("${why_no_cuda}")
  else()
    set(TASUKI_HAS_CUDA TRUE)
  endif()
endif()

if(TASUKI_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${TASUKI_NVCC} CACHE FILEPATH "CUDA compiler")
  if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${TASUKI_CCACHE})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows no C++20 for nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit)
  if(NOT CUDAToolkit_FOUND)
    set(TASUKI_HAS_CUDA FALSE)
    tasuki_no_cuda("the libraries that belong to ${TASUKI_NVCC} were not found")
  endif()
endif()

if(TASUKI_HAS_CUDA)
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
  set(cuda_werror_by_default OFF)
  if(werror_by_default AND CMAKE_CUDA_COMPILER_VERSION MATCHES "^13\\.0\\.")
    set(cuda_werror_by_default ON)
  endif()
  option(TASUKI_CUDA_WERROR
         "Treat nvcc's warnings as errors (default: in releases by GCC 12 and nvcc 13.0)"
         ${cuda_werror_by_default})
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
  # The CUDA runtime is linked statically, so that it needs no file at run time.
  set(runtime CUDA::cudart)
  if(TARGET CUDA::cudart_static)
    set(runtime CUDA::cudart_static)
  endif()
  target_link_libraries(tasuki_cuda PRIVATE tasuki tasuki_compiler ${CUBLASLT_LIBRARY}
                                            ${CUDNN_LIBRARY} ${NCCL_LIBRARY} ${runtime})
  target_link_options(tasuki_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed
                                          LINKER:--no-undefined)
  if(TASUKI_INSTALL)
    install(TARGETS tasuki_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpu)
  endif()
endfunction()
