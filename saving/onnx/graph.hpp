// A network as ONNX has it (https://onnx.ai/onnx/repo-docs/IR.html), operators of opset 17: what
// libtasuki_onnx.so writes to a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki::onnx_graph {

// One of the values is set, as `kind` says.
struct Attribute {
  enum class Kind : std::uint8_t { number, real, text, list };
  Attribute(std::string n, std::int64_t value)
      : name(std::move(n)), kind(Kind::number), number(value) {}
  Attribute(std::string n, float value) : name(std::move(n)), kind(Kind::real), real(value) {}
  Attribute(std::string n, const char* value) : name(std::move(n)), kind(Kind::text), text(value) {}
  Attribute(std::string n, std::vector<std::int64_t> value)
      : name(std::move(n)), kind(Kind::list), list(std::move(value)) {}

  std::string name;
  Kind kind;
  std::int64_t number = 0;
  float real = 0;
  std::string text;
  std::vector<std::int64_t> list;
};

struct Node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;  // names of values; an empty one is left out
  std::vector<Attribute> attributes;
};

// An axis: a size, or the name of one that is known only when the model is used.
struct Axis {
  std::int64_t size = 0;
  std::string name;
};
struct Value {
  std::string name;
  DType type = DType::float32;
  std::vector<Axis> axes;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, Tensor>> initializers;  // plain, on the CPU
  std::vector<Value> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> notes;  // the model's metadata
};

}  // namespace tasuki::onnx_graph
