# Defines tasuki::version() (core/version.hpp) from the project's version and the git commit. The
# commit is looked up when something is built after it changed, without a new configure.
#
# Run as a script by the build (cmake -P) this file writes the source, included it sets that up.

if(CMAKE_SCRIPT_MODE_FILE)
  # The sources may be a folder of another project's checkout.
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --show-prefix --short=8 HEAD
                  OUTPUT_VARIABLE commit ERROR_QUIET)
  if(commit MATCHES "^\n([0-9a-f]+)\n$")
    set(VERSION "${VERSION} (${CMAKE_MATCH_1})")
  endif()
  file(WRITE ${OUTPUT} "#include \"core/version.hpp\"\n\n"
                       "const char* tasuki::version() { return \"${VERSION}\"; }\n")
  return()
endif()

# Grows with each commit, checkout and rebase.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --show-prefix --git-path logs/HEAD
                OUTPUT_VARIABLE git_log ERROR_QUIET)
if(git_log MATCHES "^\n(.+)\n$")
  cmake_path(ABSOLUTE_PATH CMAKE_MATCH_1 BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE git_log)
endif()
if(NOT EXISTS "${git_log}" OR IS_DIRECTORY "${git_log}")
  set(git_log)
endif()
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/version.cpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUTPUT=${PROJECT_BINARY_DIR}/version.cpp -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${git_log} ${CMAKE_CURRENT_LIST_FILE} COMMENT "Version" VERBATIM)
target_sources(tasuki_core PRIVATE ${PROJECT_BINARY_DIR}/version.cpp)
