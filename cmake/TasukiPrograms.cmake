# tasuki_program_named(<name> [sources...]): a program that is installed, from <name>.cpp of the current
# folder. All are built into <build>/apps, where they look for each other. It is linked to the build
# tree's libtasuki.so there, and to lib/ next to bin/ once it is installed.

set_property(GLOBAL PROPERTY TASUKI_PROGRAMS "")

function(tasuki_program_named name)
  add_executable(${name} ${name}.cpp ${ARGN})
  target_link_libraries(${name} PRIVATE tasuki_program tasuki_compiler)
  set_target_properties(
    ${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/apps
                       INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  if(TASUKI_INSTALL)
    install(TARGETS ${name} RUNTIME COMPONENT runtime)
  endif()
  set_property(GLOBAL APPEND PROPERTY TASUKI_PROGRAMS ${name})
endfunction()

# The target tasuki_programs: all of them, and what they load when they run, which is all that is
# installed.
function(tasuki_programs_target)
  get_property(programs GLOBAL PROPERTY TASUKI_PROGRAMS)
  add_custom_target(tasuki_programs COMMENT "Programs" DEPENDS ${programs})
  if(TARGET tasuki_cuda)
    add_dependencies(tasuki_programs tasuki_cuda)
  endif()
endfunction()
