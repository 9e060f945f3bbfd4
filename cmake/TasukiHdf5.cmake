# The reader of HDF5 files, libtasuki_hdf5.so: whether it is built.
#
#   TASUKI_HDF5    AUTO  on when libhdf5 (1.10.5 or later) is found; never an error
#                  ON    an error when it is missing
#                  OFF
#
# tasuki_hdf5_library() makes the library from array_files/hdf5/. It alone is linked to libhdf5, and
# libtasuki.so opens it when it is needed (array_files/hdf5_dataset.cpp).

set(TASUKI_HDF5 AUTO CACHE STRING "Build the reader of HDF5 files: AUTO, ON or OFF")
set_property(CACHE TASUKI_HDF5 PROPERTY STRINGS AUTO ON OFF)
set(TASUKI_HAS_HDF5 FALSE)
set(TASUKI_HDF5_STATUS "off")

if(TASUKI_HDF5)
  # Debian's name of the library that is not parallel, then the one of others.
  pkg_search_module(hdf5 IMPORTED_TARGET hdf5-serial>=1.10.5 hdf5>=1.10.5)
  if(hdf5_FOUND)
    set(TASUKI_HAS_HDF5 TRUE)
    set(TASUKI_HDF5_STATUS "${hdf5_VERSION}")
  elseif(TASUKI_HDF5 STREQUAL AUTO)
    set(TASUKI_HDF5_STATUS "off: libhdf5 was not found (libhdf5-dev)")
  else()
    message(FATAL_ERROR "TASUKI_HDF5=${TASUKI_HDF5}: libhdf5 1.10.5 or later was not found (libhdf5-dev)")
  endif()
endif()

function(tasuki_hdf5_library)
  if(NOT TASUKI_HAS_HDF5)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/array_files/hdf5/*.cpp
       ${PROJECT_SOURCE_DIR}/array_files/hdf5/*.hpp)
  add_library(tasuki_hdf5 SHARED ${sources})
  set_target_properties(tasuki_hdf5 PROPERTIES LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN")
  target_compile_definitions(tasuki_hdf5 PRIVATE TASUKI_PROJECT_VERSION="${PROJECT_VERSION}")
  target_link_libraries(tasuki_hdf5 PRIVATE tasuki tasuki_layers tasuki_compiler PkgConfig::hdf5)
  target_link_options(tasuki_hdf5 PRIVATE LINKER:--no-undefined)
  if(TASUKI_INSTALL)
    install(TARGETS tasuki_hdf5 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endif()
endfunction()
