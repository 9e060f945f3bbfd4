# tasuki.pc and tasuki-program.pc, for builds without CMake:
#
#   g++ -std=c++20 $(pkg-config --cflags tasuki) mine.cpp $(pkg-config --libs tasuki)
#   mpifort $(pkg-config --variable=fortran tasuki) mine.f90 $(pkg-config --libs tasuki)
#
# They name each folder from the one that they are in, so that an installed tree can be moved.

set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What to append to the folder of a .pc file to come to `folder`, which is relative to the prefix.
function(tasuki_from_pkgconfig variable folder)
  if(IS_ABSOLUTE "${pc_folder}" OR IS_ABSOLUTE "${folder}")
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} NORMALIZE)
    set(${variable} ${folder} PARENT_SCOPE)
  else()
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${pc_folder})
    set(${variable} "\${pcfiledir}/${folder}" PARENT_SCOPE)
  endif()
endfunction()

tasuki_from_pkgconfig(pc_prefix .)
tasuki_from_pkgconfig(pc_libdir ${CMAKE_INSTALL_LIBDIR})
tasuki_from_pkgconfig(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
tasuki_from_pkgconfig(pc_datadir ${CMAKE_INSTALL_DATADIR})

# MPI's C interface: the names of its own .pc files differ, and some have none.
list(TRANSFORM MPI_CXX_INCLUDE_DIRS REPLACE "(.+)" "-I\"\\1\"" OUTPUT_VARIABLE pc_mpi_cflags)
list(PREPEND pc_mpi_cflags ${MPI_CXX_COMPILE_OPTIONS} -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
list(TRANSFORM MPI_CXX_LIBRARIES REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE pc_mpi_libs)
list(PREPEND pc_mpi_libs ${MPI_CXX_LINK_FLAGS})
list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
list(JOIN pc_mpi_libs " " pc_mpi_libs)

foreach(name tasuki tasuki-program)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${pc_folder}
          COMPONENT development)
endforeach()
