# The writer of ONNX models, libtasuki_onnx.so: whether it is built.
#
#   TASUKI_ONNX    AUTO  on when libonnx and protocol buffers are found; never an error
#                  ON    an error when they are missing
#                  OFF
#
# tasuki_onnx_library() makes the library from saving/onnx/writer/. It alone is linked to libonnx, and
# libtasuki.so opens it for the first model (saving/onnx/export_onnx.cpp).

set(TASUKI_ONNX AUTO CACHE STRING "Build the writer of ONNX models: AUTO, ON or OFF")
set_property(CACHE TASUKI_ONNX PROPERTY STRINGS AUTO ON OFF)
set(TASUKI_HAS_ONNX FALSE)
set(TASUKI_ONNX_STATUS "off")

if(TASUKI_ONNX)
  find_package(Protobuf QUIET)
  find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h)
  find_library(ONNX_LIBRARY onnx)
  find_library(ONNX_PROTO_LIBRARY onnx_proto)
  if(Protobuf_FOUND AND ONNX_INCLUDE_DIR AND ONNX_LIBRARY AND ONNX_PROTO_LIBRARY)
    set(TASUKI_HAS_ONNX TRUE)
    set(TASUKI_ONNX_STATUS "with protocol buffers ${Protobuf_VERSION}")
  elseif(TASUKI_ONNX STREQUAL AUTO)
    set(TASUKI_ONNX_STATUS "off: libonnx was not found (libonnx-dev)")
  else()
    message(FATAL_ERROR "TASUKI_ONNX=${TASUKI_ONNX}: libonnx was not found (libonnx-dev)")
  endif()
endif()

function(tasuki_onnx_library)
  if(NOT TASUKI_HAS_ONNX)
    return()
  endif()
  add_library(tasuki_onnx SHARED saving/onnx/writer/write_onnx.cpp)
  # Headers of protocol buffers and ONNX are as their authors wrote them.
  target_include_directories(tasuki_onnx SYSTEM PRIVATE ${ONNX_INCLUDE_DIR})
  target_compile_definitions(tasuki_onnx PRIVATE ONNX_NAMESPACE=onnx ONNX_ML=1)
  target_link_libraries(tasuki_onnx PRIVATE tasuki tasuki_layers tasuki_compiler ${ONNX_LIBRARY}
                                            ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
  target_link_options(tasuki_onnx PRIVATE LINKER:--as-needed LINKER:--no-undefined)
  set_target_properties(tasuki_onnx PROPERTIES INSTALL_RPATH "$ORIGIN")
  if(TASUKI_INSTALL)
    install(TARGETS tasuki_onnx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endif()
endfunction()
