# libtasuki_onnx.so, which writes ONNX models by libonnx and is loaded for the first of them
# (saving/onnx/export_onnx.hpp).

option(TASUKI_ONNX "Write ONNX models (default: if libonnx is there)" ON)
set(TASUKI_HAS_ONNX OFF)
if(TASUKI_ONNX)
  find_package(Protobuf QUIET)
  find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h)
  find_library(ONNX_LIBRARY onnx)
  find_library(ONNX_PROTO_LIBRARY onnx_proto)
  if(Protobuf_FOUND AND ONNX_INCLUDE_DIR AND ONNX_LIBRARY AND ONNX_PROTO_LIBRARY)
    set(TASUKI_HAS_ONNX ON)
  else()
    message(STATUS "libonnx (Debian's libonnx-dev) was not found: ONNX models cannot be written")
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
