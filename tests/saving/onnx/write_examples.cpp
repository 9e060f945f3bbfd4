// onnx_examples [--small] FOLDER [NAME...]: exports the examples, all or these, to
// FOLDER/NAME.onnx, and writes their inputs and the results here to FOLDER/NAME.npz (in/...,
// out/...), for tests/clients/check.py. ONNX's checker looks at each. --small: those of at most a
// million weights.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "examples.hpp"
#include "saving/npz.hpp"
#include "saving/onnx/repeated.hpp"

using namespace tasuki;

namespace {

// Inputs and results: of the example, or of `examples` of them and `more` elements along other axes
// of any size.
void add_results(const testing::OnnxExample& example, const std::string& prefix,
                 std::int64_t examples, std::int64_t more, std::vector<NpzEntry>& arrays) {
  std::vector<Variable> inputs;
  for (const OnnxInput& input : example.inputs) {
    Tensor x = input.example;
    if (examples > 0) x = onnx_graph::repeated(x, 0, examples);
    for (int axis = 1; more > 0 && axis <= static_cast<int>(input.also_any.size()); ++axis)
      x = onnx_graph::repeated(x, axis, x.shape()[axis] + more);
    inputs.emplace_back(x);
    arrays.push_back({prefix + "in/" + input.name, x});
  }
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  for (const auto& [name, result] : example.pass(inputs))
    arrays.push_back({prefix + "out/" + name, result.value().plain()});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool is_small = std::erase(words, "--small") > 0;
  if (words.empty()) {
    fmt::print(stderr, "usage: onnx_examples [--small] FOLDER [NAME...]\n");
    return 64;
  }
  const std::filesystem::path folder = words[0];
  const std::vector<std::string> wanted(words.begin() + 1, words.end());
  try {
    std::filesystem::create_directories(folder);
    for (const testing::OnnxExample& example : testing::onnx_examples(is_small)) {
      if (!wanted.empty() && std::ranges::find(wanted, example.name) == wanted.end()) continue;
      export_onnx(*example.model, example.inputs, example.pass, folder / (example.name + ".onnx"));
      std::vector<NpzEntry> arrays;
      add_results(example, "", 0, 0, arrays);
      add_results(example, "larger_", 5, 3, arrays);
      write_npz(folder / (example.name + ".npz"), arrays);
      fmt::print("{}\n", example.name);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "onnx_examples: {}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
