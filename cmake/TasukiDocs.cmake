# Target `docs`: <build>/docs/html, the pages and the reference of the public headers, with Doxygen.
#
# Run as a script (cmake -P, with SOURCE, HEADERS, SITE and DOXYGEN) this file writes SITE/html. HEADERS is the folder
# that is <tasuki/...> for users.

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_policy(VERSION 3.25)
  cmake_path(GET HEADERS PARENT_PATH include)
  file(READ ${SOURCE}/docs/Doxyfile settings)
  file(WRITE ${SITE}/Doxyfile "${settings}
INPUT += \"${HEADERS}\"
INCLUDE_PATH = \"${include}\"
STRIP_FROM_PATH = \"${SOURCE}\" \"${include}\"
STRIP_FROM_INC_PATH = \"${include}\"
OUTPUT_DIRECTORY = \"${SITE}\"
")
  file(REMOVE_RECURSE ${SITE}/html)
  set(ENV{TASUKI_HEADERS} ${HEADERS})
  execute_process(COMMAND ${DOXYGEN} ${SITE}/Doxyfile WORKING_DIRECTORY ${SOURCE}
                  COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()

find_package(Doxygen QUIET)
find_program(TASUKI_PYTHON3 python3)  # runs docs/doxygen_filter.py
if(DOXYGEN_FOUND AND TASUKI_PYTHON3)
  add_custom_target(
    docs
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
            -DHEADERS=${PROJECT_BINARY_DIR}/include/tasuki -DSITE=${PROJECT_BINARY_DIR}/docs
            -DDOXYGEN=${DOXYGEN_EXECUTABLE} -P ${CMAKE_CURRENT_LIST_FILE}
    COMMENT "Site in ${PROJECT_BINARY_DIR}/docs/html" VERBATIM)
  add_dependencies(docs tasuki_public_headers)
endif()
