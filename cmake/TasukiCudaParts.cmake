# What the CUDA backend is made of: nvcc of CUDA 12 or 13, cuDNN 9, NCCL and cuBLASLt. They are
# looked for in CUDA_HOME, CUDA_PATH, /usr/local/cuda and the folders of NVIDIA's Python wheels
# (site-packages/nvidia/*), or in TASUKI_CUDA_FOLDERS where that is set, then in the system's.

set(TASUKI_CUDA_FOLDERS "" CACHE STRING "Folders with bin/, include/ and lib/ of CUDA, cuDNN, NCCL")

function(tasuki_cuda_folders result)
  if(TASUKI_CUDA_FOLDERS)
    set(${result} ${TASUKI_CUDA_FOLDERS} PARENT_SCOPE)
    return()
  endif()
  set(wheels
      "import glob, site, sysconfig"
      "roots = {sysconfig.get_path('purelib'), *site.getsitepackages(), site.getusersitepackages()}"
      "print('|'.join(sorted(d for r in roots for d in glob.glob(r + '/nvidia/*'))))")
  list(JOIN wheels "\n" wheels)
  execute_process(COMMAND python3 -c "${wheels}" OUTPUT_VARIABLE found ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "|" ";" found "${found}")  # a list would have split the program above
  set(folders $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda ${found})
  list(REMOVE_DUPLICATES folders)
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

# "9.19.0" from the three macros of a header; empty where it does not have them.
function(tasuki_header_version result file)
  set(version)
  if(EXISTS ${file})
    foreach(name ${ARGN})
      file(STRINGS ${file} line REGEX "^#define ${name} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND version ${number})
    endforeach()
  endif()
  list(JOIN version "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Compiles a kernel, once: nvcc may know neither the architectures nor the host's compiler.
function(tasuki_try_nvcc result)
  set(tried ${TASUKI_NVCC} ${ARGN})
  set(${result} "" PARENT_SCOPE)
  if(TASUKI_NVCC_WORKS STREQUAL "${tried}")
    return()
  endif()
  set(flags -std=c++20)
  foreach(architecture ${ARGN})
    if(architecture MATCHES "^[0-9]+[a-z]?")
      set(number ${CMAKE_MATCH_0})
      list(APPEND flags -gencode=arch=compute_${number},code=sm_${number})
    endif()
  endforeach()
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND flags -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  endif()
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/tasuki_cuda_probe)
  file(WRITE ${probe}.cu "__global__ void probe() {}\n")
  execute_process(COMMAND ${TASUKI_NVCC} ${flags} -c ${probe}.cu -o ${probe}.o
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    string(REGEX MATCH "[^\n]*([Ee]rror|fatal)[^\n]*" line "${said}")
    list(JOIN ARGN " " architectures)
    set(${result} "${TASUKI_NVCC} cannot compile for ${architectures}: ${line}" PARENT_SCOPE)
    return()
  endif()
  set(TASUKI_NVCC_WORKS "${tried}" CACHE INTERNAL "nvcc and architectures that were tried")
endfunction()

# tasuki_find_cuda_parts(<why not> <architectures>...)
#
# Finds all parts, as cache variables, and sets CUDNN_VERSION and NCCL_VERSION; <why not> is empty
# then, else one line.
function(tasuki_find_cuda_parts why_not)
  macro(tasuki_no_cuda_parts reason)
    set(${why_not} "${reason}" PARENT_SCOPE)
    return()
  endmacro()
  tasuki_cuda_folders(folders)
  find_program(TASUKI_NVCC nvcc HINTS ${folders} PATH_SUFFIXES bin)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${folders} PATH_SUFFIXES include)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${folders} PATH_SUFFIXES include)
  # Wheels have no links without a version. A library comes from where its header does: with
  # NAMES_PER_DIR a link in a later folder does not go before a file in an earlier one.
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR HINTS ${folders}
               PATH_SUFFIXES lib lib64)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${folders}
               PATH_SUFFIXES lib lib64)
  find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 NAMES_PER_DIR
               HINTS ${folders} PATH_SUFFIXES lib lib64)
  # CMake finds the toolkit by libcudart.so, a link that wheels do not have.
  if(TASUKI_NVCC)
    get_filename_component(nvcc_folder ${TASUKI_NVCC} DIRECTORY)
  endif()
  find_library(CUDA_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 NAMES_PER_DIR
               HINTS ${nvcc_folder}/.. ${folders} PATH_SUFFIXES lib64 lib)

  if(NOT TASUKI_NVCC)
    tasuki_no_cuda_parts("nvcc was not found")
  endif()
  execute_process(COMMAND ${TASUKI_NVCC} --version OUTPUT_VARIABLE said ERROR_QUIET)
  set(version "no version")
  if(said MATCHES "release ([0-9.]+)")
    set(version ${CMAKE_MATCH_1})
  endif()
  if(NOT version VERSION_GREATER_EQUAL 12.0)
    tasuki_no_cuda_parts("CUDA 12 or 13 expected, found ${version} (${TASUKI_NVCC}; set TASUKI_NVCC)")
  endif()

  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    tasuki_no_cuda_parts("cuDNN 9 was not found (set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY)")
  endif()
  tasuki_header_version(version ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_MAJOR CUDNN_MINOR
                        CUDNN_PATCHLEVEL)
  if(NOT version MATCHES "^9\\.")
    tasuki_no_cuda_parts("cuDNN 9 expected, found ${version} in ${CUDNN_INCLUDE_DIR} (set CUDNN_INCLUDE_DIR and \
CUDNN_LIBRARY)")
  endif()
  set(CUDNN_VERSION ${version} PARENT_SCOPE)

  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    tasuki_no_cuda_parts("NCCL was not found (set NCCL_INCLUDE_DIR and NCCL_LIBRARY)")
  endif()
  tasuki_header_version(version ${NCCL_INCLUDE_DIR}/nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
  if(NOT version VERSION_GREATER_EQUAL 2.19)  # ncclMemAlloc, ncclCommRegister
    tasuki_no_cuda_parts("NCCL 2.19 or later expected, found ${version} in ${NCCL_INCLUDE_DIR} (set \
NCCL_INCLUDE_DIR and NCCL_LIBRARY)")
  endif()
  set(NCCL_VERSION ${version} PARENT_SCOPE)

  if(NOT CUBLASLT_LIBRARY)
    tasuki_no_cuda_parts("cuBLASLt was not found (set CUBLASLT_LIBRARY)")
  endif()
  tasuki_try_nvcc(reason ${ARGN})
  tasuki_no_cuda_parts("${reason}")
endfunction()
