// The symbol that libtasuki_onnx.so has for libtasuki.so.
#pragma once

#include <string>

#include "saving/onnx/graph.hpp"

namespace tasuki {

// Makes the bytes of a file of this graph, checked by ONNX's own checker. False: not a valid model,
// and `error` says why.
using WriteOnnx = bool (*)(const onnx_graph::Graph& graph, std::string& bytes, std::string& error);
inline constexpr const char* write_onnx_symbol = "tasuki_write_onnx_1";

}  // namespace tasuki
