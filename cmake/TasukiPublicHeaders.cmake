# <build>/include/tasuki: the headers for users, as they are installed. They are tasuki.hpp, what it
# includes, what that includes and so on, and tasuki.h; "nn/module.hpp" of the checkout is "tasuki/nn/module.hpp"
# there, so that no folder of a user's is mixed up with one of Tasuki's.
#
# Run as a script by the build (cmake -P, with SOURCE and DESTINATION) this file writes them; files
# whose text is the same keep their time. Included, it has tasuki_public_headers(<target>), which puts
# them on the include path of whatever links to the target.

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_policy(VERSION 3.25)
  set(waiting tasuki.hpp)
  set(seen "")
  while(waiting)
    list(POP_FRONT waiting header)
    if(header IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${header})
    file(STRINGS ${SOURCE}/${header} includes REGEX "^#include \"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]*)\".*" "\\1")
    list(APPEND waiting ${includes})
    file(READ ${SOURCE}/${header} text)
    string(REGEX REPLACE "(^|\n)#include \"" "\\1#include \"tasuki/" text "${text}")
    set(before "")
    if(EXISTS ${DESTINATION}/${header})
      file(READ ${DESTINATION}/${header} before)
    endif()
    if(NOT text STREQUAL before)
      file(WRITE ${DESTINATION}/${header} "${text}")
    endif()
  endwhile()
  # The header of programs in other languages.
  list(APPEND seen tasuki.h)
  configure_file(${SOURCE}/bindings/tasuki.h ${DESTINATION}/tasuki.h COPYONLY)
  file(GLOB_RECURSE old RELATIVE ${DESTINATION} ${DESTINATION}/*)
  list(REMOVE_ITEM old ${seen})
  list(TRANSFORM old PREPEND ${DESTINATION}/)
  if(old)
    file(REMOVE ${old})
  endif()
  file(GLOB_RECURSE entries LIST_DIRECTORIES true ${DESTINATION}/*)
  list(SORT entries ORDER DESCENDING)  # folders after what is in them
  foreach(entry IN LISTS entries)
    file(GLOB inside ${entry}/*)
    if(IS_DIRECTORY ${entry} AND NOT inside)
      file(REMOVE_RECURSE ${entry})
    endif()
  endforeach()
  return()
endif()

set(TASUKI_PUBLIC_HEADERS_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(tasuki_public_headers target)
  get_property(layers GLOBAL PROPERTY TASUKI_LAYERS)
  list(TRANSFORM layers PREPEND ${PROJECT_SOURCE_DIR}/)
  list(TRANSFORM layers APPEND /*.hpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${layers} ${PROJECT_SOURCE_DIR}/program/*.hpp)
  set(stamp ${PROJECT_BINARY_DIR}/public_headers.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
            -DDESTINATION=${PROJECT_BINARY_DIR}/include/tasuki -P ${TASUKI_PUBLIC_HEADERS_SCRIPT}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${PROJECT_SOURCE_DIR}/tasuki.hpp ${PROJECT_SOURCE_DIR}/bindings/tasuki.h ${headers} ${TASUKI_PUBLIC_HEADERS_SCRIPT}
    COMMENT "Headers for users" VERBATIM)
  add_custom_target(${target}_public_headers DEPENDS ${stamp})
  add_dependencies(${target} ${target}_public_headers)
  target_include_directories(
    ${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()
