# Installed tree: lib/libtasuki.so and lib/libtasuki_program.so, include/tasuki/ with tasuki.hpp and
# all that it includes, bin/<programs>, and a CMake package, so that find_package(tasuki CONFIG) gives
# tasuki::tasuki and tasuki::program. It can be moved as a whole: all paths in it are relative.

include(CMakePackageConfigHelpers)

install(TARGETS tasuki tasuki_program EXPORT tasuki LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tasuki)
install(EXPORT tasuki NAMESPACE tasuki:: FILE tasuki-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tasuki-config.cmake.in ${PROJECT_BINARY_DIR}/tasuki-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tasuki-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tasuki-config.cmake
              ${PROJECT_BINARY_DIR}/tasuki-config-version.cmake DESTINATION ${package_folder})

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(page README CHANGELOG CONTRIBUTING SECURITY)
  install(FILES ${PROJECT_SOURCE_DIR}/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL
        PATTERN Doxyfile EXCLUDE PATTERN doxygen_filter.py EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/hostfiles ${PROJECT_SOURCE_DIR}/examples
                  ${PROJECT_SOURCE_DIR}/experiments
        DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/get_data.sh ${PROJECT_SOURCE_DIR}/scripts/plot_monitor
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/scripts/usage.sh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tasuki OPTIONAL)
