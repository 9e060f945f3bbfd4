# Sources of a target are compiled six at a time, so that headers are read and templates instantiated
# once for six of them. CMake's own unity builds do the same, but with full paths, for which ccache
# would find nothing in another checkout.

set(TASUKI_COMPILES_GROUPS OFF)
if(TASUKI_GROUP_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT TASUKI_SANITIZE)
  set(TASUKI_COMPILES_GROUPS ON)
endif()

# tasuki_groups(<variable> <target> <files...>): these files, with files that include them in place of
# the sources if they are compiled in groups. They are included as "nn/module.cpp", by the include
# root of their folder; a source outside of these folders, or with compile options of its own by now,
# stays as it is. Names in unnamed namespaces of all these sources must differ.
function(tasuki_groups variable target)
  set(members)
  set(files ${ARGN})
  if(TASUKI_COMPILES_GROUPS)
    foreach(file IN LISTS files)
      cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE source)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(REGEX MATCH "^[^/]+" folder ${source})
      get_source_file_property(own_options ${file} COMPILE_OPTIONS)
      if(NOT own_options AND source MATCHES "\\.cpp$"
         AND EXISTS ${PROJECT_BINARY_DIR}/layers/${folder}/${source})
        list(APPEND members ${source})
        list(REMOVE_ITEM files ${file})
      endif()
    endforeach()
  endif()
  set(first 0)
  while(members)
    list(SUBLIST members 0 6 group)
    list(REMOVE_ITEM members ${group})
    list(TRANSFORM group REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE lines)
    list(JOIN lines "" text)
    set(file ${PROJECT_BINARY_DIR}/groups/${target}_${first}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND files ${file})
    math(EXPR first "${first} + 6")
  endwhile()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()
