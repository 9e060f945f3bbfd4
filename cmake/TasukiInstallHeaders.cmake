# Run by `cmake --install`: installs tasuki.hpp, the headers that it includes, those that they include
# and so on, into DESTINATION.
#
#   SOURCE       the source folder, in which "tasuki/<path>" is <path>
#   DESTINATION  the folder for <path>

cmake_policy(PUSH)
cmake_policy(VERSION 3.25)
set(waiting tasuki.hpp)
set(seen "")
while(waiting)
  list(POP_FRONT waiting header)
  if(header IN_LIST seen)
    continue()
  endif()
  list(APPEND seen ${header})
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL ${SOURCE}/${header} DESTINATION ${DESTINATION}/${folder})
  file(STRINGS ${SOURCE}/${header} includes REGEX "^#include \"tasuki/")
  list(TRANSFORM includes REPLACE "^#include \"tasuki/([^\"]*)\".*" "\\1")
  list(APPEND waiting ${includes})
endwhile()
cmake_policy(POP)
