# Target `docs`: <build>/docs/html from the public headers and the Markdown pages, with Doxygen.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  add_custom_target(
    docs
    COMMAND ${CMAKE_COMMAND} -E echo "OUTPUT_DIRECTORY = ${PROJECT_BINARY_DIR}/docs"
            > ${PROJECT_BINARY_DIR}/Doxyfile.tail
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
    COMMAND ${CMAKE_COMMAND} -E cat ${PROJECT_SOURCE_DIR}/docs/Doxyfile
            ${PROJECT_BINARY_DIR}/Doxyfile.tail > ${PROJECT_BINARY_DIR}/Doxyfile
    COMMAND ${DOXYGEN_EXECUTABLE} ${PROJECT_BINARY_DIR}/Doxyfile
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "Reference in docs/html" VERBATIM)
endif()
