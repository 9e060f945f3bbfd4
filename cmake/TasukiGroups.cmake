# Sources of a target are compiled six at a time, so that headers are read and templates instantiated
# once for six of them. CMake's own unity builds do the same, but with full paths, for which ccache
# would find nothing in another checkout.

set(TASUKI_COMPILES_GROUPS OFF)
if(TASUKI_GROUP_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TASUKI_SANITIZE)
  set(TASUKI_COMPILES_GROUPS ON)
endif()

# tasuki_groups(<variable> <target> <sources...>): files that include these sources, or the sources
# themselves if nothing is compiled in groups. They are included as "nn/module.cpp", by the include
# root of their folder. Names in unnamed namespaces of all these sources must differ.
function(tasuki_groups variable target)
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  if(TASUKI_COMPILES_GROUPS AND sources)
    list(LENGTH sources count)
    math(EXPR last "${count} - 1")
    set(groups)
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
      list(APPEND groups ${group})
    endforeach()
    set(sources ${groups})
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
