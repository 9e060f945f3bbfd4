// Networks, or single functions, that are exported to ONNX: the catalogue's, and one for each
// function that has a form there.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "saving/onnx/export_onnx.hpp"

namespace tasuki::testing {

using OnnxResults = std::vector<std::pair<std::string, Variable>>;

struct OnnxExample {
  std::string name;
  std::shared_ptr<Module> model;
  std::vector<OnnxInput> inputs;
  OnnxPass pass;
};
// `is_small`: only those of at most a million weights.
std::vector<OnnxExample> onnx_examples(bool is_small);

}  // namespace tasuki::testing
