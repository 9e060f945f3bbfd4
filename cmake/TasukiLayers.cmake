# Each folder is one target that can include headers only from the folders that it uses.
#
# Headers are included by their paths in the checkout, "nn/module.hpp", but the checkout itself is on
# no include path. For each folder the build tree gets an include root with one link in it,
# <build>/layers/<folder>/<folder>. A target's include path has its own root and those of the folders
# that it USES (and theirs), so including a header from any other folder does not compile.
#
# Users include <tasuki/nn/module.hpp>: cmake/TasukiPublicHeaders.cmake.

set_property(GLOBAL PROPERTY TASUKI_LAYERS "")

# Of the names that programs load, libtasuki.so.0.1: versions with another binary interface have
# another one (CONTRIBUTING.md, Release).
set(TASUKI_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND TASUKI_SOVERSION .${PROJECT_VERSION_MINOR})
endif()

# The include root of a folder.
function(tasuki_include_root name root)
  set(${root} ${PROJECT_BINARY_DIR}/layers/${name} PARENT_SCOPE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/layers/${name})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${PROJECT_BINARY_DIR}/layers/${name}/${name}
       SYMBOLIC)
endfunction()

# tasuki_layer(<folder> [USES folders...] [LINK PUBLIC libs... PRIVATE libs...] [SINGLY folders...])
#
# SINGLY: folders (the layer itself, or some below it) whose sources use the same names in their
# unnamed namespaces, and are therefore compiled one by one.
function(tasuki_layer name)
  cmake_parse_arguments(ARG "" "" "USES;LINK;SINGLY" ${ARGN})
  tasuki_include_root(${name} root)
  file(GLOB_RECURSE sources RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/${name}/*.cpp ${PROJECT_SOURCE_DIR}/${name}/*.hpp)
  # Libraries of their own: libtasuki_cuda.so (cmake/TasukiCuda.cmake), libtasuki_hdf5.so
  # (cmake/TasukiHdf5.cmake) and libtasuki_onnx.so (cmake/TasukiOnnx.cmake).
  list(FILTER sources EXCLUDE REGEX "/(cuda|hdf5|onnx/writer)/")
  set(grouped ${sources})
  foreach(folder IN LISTS ARG_SINGLY)
    list(FILTER grouped EXCLUDE REGEX "^${folder}/")
  endforeach()
  list(REMOVE_ITEM sources ${grouped})
  tasuki_groups(groups tasuki_${name} ${grouped})
  add_library(tasuki_${name} OBJECT ${sources} ${groups})
  add_library(tasuki::${name} ALIAS tasuki_${name})
  set_target_properties(tasuki_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(tasuki_${name} PUBLIC ${root})
  target_link_libraries(tasuki_${name} PRIVATE tasuki_compiler)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(tasuki_${name} PUBLIC tasuki::${used})
  endforeach()
  if(ARG_LINK)
    target_link_libraries(tasuki_${name} ${ARG_LINK})
  endif()
  set_property(GLOBAL APPEND PROPERTY TASUKI_LAYERS ${name})
endfunction()

# All layers, linked into libtasuki.so; `tasuki` is what programs link to. `tasuki_layers` has the
# include roots of all layers, for targets of this project.
function(tasuki_library)
  get_property(layers GLOBAL PROPERTY TASUKI_LAYERS)
  add_library(tasuki SHARED)
  add_library(tasuki::tasuki ALIAS tasuki)
  set_target_properties(tasuki PROPERTIES VERSION ${PROJECT_VERSION} LINKER_LANGUAGE CXX
                                          SOVERSION ${TASUKI_SOVERSION})
  add_library(tasuki_layers INTERFACE)
  foreach(layer IN LISTS layers)
    target_sources(tasuki PRIVATE $<TARGET_OBJECTS:tasuki_${layer}>)
    target_include_directories(tasuki_layers INTERFACE ${PROJECT_BINARY_DIR}/layers/${layer})
  endforeach()
  tasuki_public_headers(tasuki)
  target_compile_features(tasuki INTERFACE cxx_std_20)
  target_link_libraries(
    tasuki
    PUBLIC fmt::fmt MPI::MPI_CXX nlohmann_json::nlohmann_json
    PRIVATE tasuki_compiler spdlog::spdlog PkgConfig::xxhash DNNL::dnnl OpenMP::OpenMP_CXX
            ZLIB::ZLIB JPEG::JPEG PNG::PNG libzip::zip Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# The library that training programs share, separate because programs without flags need no Boost.
function(tasuki_program_library)
  tasuki_include_root(program root)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/program/*.cpp
       ${PROJECT_SOURCE_DIR}/program/*.hpp)
  tasuki_groups(groups tasuki_program ${sources})
  add_library(tasuki_program SHARED ${groups})
  add_library(tasuki::program ALIAS tasuki_program)
  set_target_properties(
    tasuki_program PROPERTIES EXPORT_NAME program VERSION ${PROJECT_VERSION} LINKER_LANGUAGE CXX
                              SOVERSION ${TASUKI_SOVERSION} INSTALL_RPATH "$ORIGIN")
  target_include_directories(tasuki_program PRIVATE ${root})
  target_link_libraries(tasuki_program PUBLIC tasuki
                        PRIVATE tasuki_layers tasuki_compiler Boost::program_options PkgConfig::hwloc
                                ${CMAKE_DL_LIBS})
endfunction()

# Gives the targets of the current folder and of those below it the include roots of all layers, of
# program/ and of the folders that are named: for programs, tests and benchmarks.
macro(tasuki_include_tree)
  link_libraries(tasuki_layers)
  foreach(folder program ${ARGN})
    tasuki_include_root(${folder} root)
    include_directories(${root})
  endforeach()
endmacro()
