# Sources of a target are compiled six at a time, so that headers are read and templates instantiated
# once for six of them. CMake's own unity builds do the same, but with full paths, for which ccache
# would find nothing in another checkout.

set(TASUKI_COMPILES_GROUPS OFF)
if(TASUKI_GROUP_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TASUKI_SANITIZE)
  set(TASUKI_COMPILES_GROUPS ON)
endif()

# tasuki_groups(<variable> <target> <files...>): these files, with files that include them in place of
# the sources if they are compiled in groups. They are included as "nn/module.cpp", by the include
# root of their folder. Names in unnamed namespaces of all these sources must differ, and properties
# of a source have no effect.
function(tasuki_groups variable target)
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  set(files ${ARGN})
  if(TASUKI_COMPILES_GROUPS AND sources)
    list(REMOVE_ITEM files ${sources})
    list(LENGTH sources count)
    math(EXPR last "${count} - 1")
    foreach(first RANGE 0 ${last} 6)
      list(SUBLIST sources ${first} 6 members)
      set(text)
      foreach(source IN LISTS members)
        cmake_path(ABSOLUTE_PATH source)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
        string(APPEND text "#include \"${source}\"\n")
      endforeach()
      set(group ${PROJECT_BINARY_DIR}/groups/${target}_${first}.cpp)
      file(CONFIGURE OUTPUT ${group} CONTENT "${text}" @ONLY)
      list(APPEND files ${group})
    endforeach()
  endif()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()
