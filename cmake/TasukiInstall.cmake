# Installed tree: lib/libtasuki.so and lib/libtasuki_program.so, include/tasuki/ with tasuki.hpp and
# all that it includes, bin/<programs>, a CMake package, so that find_package(tasuki CONFIG) gives
# tasuki::tasuki and tasuki::program, and the same for pkg-config (cmake/TasukiPkgConfig.cmake). It can
# be moved as a whole: all paths in it are relative.
#
# Each file belongs to one component: runtime (programs, what they load, pages), development (what
# compiling needs), gpu (the CUDA backend), module (the environment module file).

include(CMakePackageConfigHelpers)

install(TARGETS tasuki tasuki_program EXPORT tasuki
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tasuki)
install(EXPORT tasuki NAMESPACE tasuki:: FILE tasuki-targets.cmake DESTINATION ${package_folder}
        COMPONENT development)
# Modules of Fortran have a form of their own for each compiler, so the source is installed.
install(FILES ${PROJECT_SOURCE_DIR}/bindings/tasuki.f90
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki COMPONENT development)
set(fortran_source ${CMAKE_INSTALL_DATADIR}/tasuki/tasuki.f90)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tasuki-config.cmake.in ${PROJECT_BINARY_DIR}/tasuki-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR fortran_source)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tasuki-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tasuki-config.cmake
              ${PROJECT_BINARY_DIR}/tasuki-config-version.cmake DESTINATION ${package_folder}
        COMPONENT development)

include(TasukiPkgConfig)

if(NOT TASUKI_DEBIAN)  # its packages have the license in `copyright`
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
endif()
foreach(page README CHANGELOG CONTRIBUTING SECURITY)
  install(FILES ${PROJECT_SOURCE_DIR}/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
          COMPONENT runtime OPTIONAL)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT runtime OPTIONAL
        PATTERN Doxyfile EXCLUDE PATTERN doxygen_filter.py EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/hostfiles ${PROJECT_SOURCE_DIR}/experiments
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development OPTIONAL)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/get_data.sh ${PROJECT_SOURCE_DIR}/scripts/plot_monitor
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki COMPONENT runtime OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/usage.sh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki COMPONENT runtime OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/hostfiles/mca-params.conf
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki COMPONENT runtime)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/hostfiles/start_orted
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki COMPONENT runtime)

# The module file finds the installed tree from its own place.
set(module_folder ${CMAKE_INSTALL_DATADIR}/modulefiles/tasuki)
file(RELATIVE_PATH prefix_from_module ${CMAKE_INSTALL_FULL_DATADIR}/modulefiles/tasuki
     ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/packaging/modulefile.in ${PROJECT_BINARY_DIR}/modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${module_folder}
        RENAME ${PROJECT_VERSION} COMPONENT module)
