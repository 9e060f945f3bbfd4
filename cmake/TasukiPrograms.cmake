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

# The target tasuki_programs: all of them, what they load when they run, and their pages, which is all
# that is installed.
function(tasuki_programs_target)
  get_property(programs GLOBAL PROPERTY TASUKI_PROGRAMS)
  tasuki_program_pages(pages ${programs})
  add_custom_target(tasuki_programs ALL COMMENT "Programs" DEPENDS ${programs} ${pages})
  if(TARGET tasuki_cuda)
    add_dependencies(tasuki_programs tasuki_cuda)
  endif()
  foreach(plug_in tasuki_hdf5 tasuki_onnx)
    if(TARGET ${plug_in})
      add_dependencies(tasuki_programs ${plug_in})
    endif()
  endforeach()
endfunction()

# Each program writes its manual page and its file for bash-completion from its own flags (--help man,
# --help bash). Sets `made` to these files, which are in <build>/pages. Debian wants manual pages
# compressed.
option(TASUKI_BUILD_PAGES "Run the programs to write their manual pages and completion for bash" ON)
function(tasuki_program_pages made)
  if(NOT TASUKI_BUILD_PAGES OR NOT TASUKI_INSTALL OR CMAKE_CROSSCOMPILING OR TASUKI_SANITIZE)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/pages)
  file(MAKE_DIRECTORY ${folder}/man1 ${folder}/completions)
  foreach(program IN LISTS ARGN)
    set(page ${folder}/man1/${program}.1)
    set(completion ${folder}/completions/${program})
    set(compress)
    if(TASUKI_DEBIAN)
      set(compress COMMAND gzip -9nf ${page})
      string(APPEND page .gz)
    endif()
    add_custom_command(
      OUTPUT ${page} ${completion}
      COMMAND ${program} --help man > ${folder}/man1/${program}.1
      COMMAND ${program} --help bash > ${completion}
      ${compress}
      DEPENDS ${program} COMMENT "Pages of ${program}" VERBATIM)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
    install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            COMPONENT runtime)
    list(APPEND files ${page} ${completion})
  endforeach()
  set(${made} ${files} PARENT_SCOPE)
endfunction()
