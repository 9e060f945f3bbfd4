#include "saving/onnx/export_onnx.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_library.hpp"
#include "nn/call_recorder.hpp"
#include "saving/onnx/entry.hpp"
#include "saving/onnx/repeated.hpp"
#include "saving/onnx/translation.hpp"

namespace tasuki {
namespace {

using onnx_graph::Graph;
using onnx_graph::Pass;
using onnx_graph::repeated;

// The inputs with this many examples, and if `is_larger` more elements along other axes of any
// size, a different number along each.
std::vector<Variable> inputs_of(const std::vector<OnnxInput>& inputs, std::int64_t examples,
                                bool is_larger) {
  std::int64_t more = 6;
  std::vector<Variable> made;
  for (const OnnxInput& input : inputs) {
    TASUKI_CHECK(input.example.shape().rank() > static_cast<int>(input.also_any.size()) &&
                     input.example.count() > 0,
                 "export_onnx: input {} of {} has no example or too few axes", input.name,
                 input.example.shape().text());
    Tensor x = repeated(input.example, 0, examples);
    for (int axis = 1; axis <= static_cast<int>(input.also_any.size()); ++axis)
      x = repeated(x, axis, x.shape()[axis] + (is_larger ? ++more : 0));
    made.emplace_back(x);
  }
  return made;
}

Pass record(const std::vector<OnnxInput>& inputs, const OnnxPass& forward, std::int64_t examples,
            bool is_larger) {
  const TrainingMode evaluation(false);
  const CallRecorder recorder;
  const std::vector<Variable> values = inputs_of(inputs, examples, is_larger);
  Pass pass;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    pass.inputs.emplace_back(inputs[i].name, values[i].value());
  for (const auto& [name, result] : forward(values))
    pass.results.emplace_back(name, result.value());
  pass.calls = recorder.calls();
  return pass;
}

WriteOnnx writer() {
  constexpr OwnLibrary library = {"libtasuki_onnx.so", "TASUKI_ONNX_LIBRARY", "ONNX",
                                  "install libonnx-dev and build it again"};
  return reinterpret_cast<WriteOnnx>(symbol_in(library, write_onnx_symbol));
}

}  // namespace

std::string encode_onnx(const Module& model, const std::vector<OnnxInput>& inputs,
                        const OnnxPass& forward, const std::filesystem::path& file,
                        const OnnxNotes& notes) {
  const WriteOnnx write = writer();
  constexpr std::int64_t few = 2, more = 3;
  const Pass pass = record(inputs, forward, few, false),
             larger = record(inputs, forward, more, true);
  std::vector<std::vector<std::string>> axis_names;
  for (const OnnxInput& input : inputs) {
    axis_names.push_back({"batch"});
    axis_names.back().insert(axis_names.back().end(), input.also_any.begin(), input.also_any.end());
  }
  Graph graph = translate(model, pass, larger, axis_names);
  graph.name = file.stem().string();
  graph.notes = notes;
  std::string bytes, error;
  if (!write(graph, bytes, error))
    fail(ErrorKind::config, "{}: this network cannot be written as an ONNX model: {}",
         file.string(), error);
  return bytes;
}

std::string encode_onnx(Layer& model, const Tensor& example, const std::filesystem::path& file,
                        const OnnxNotes& notes) {
  return encode_onnx(
      model, {{"x", example}},
      [&](const std::vector<Variable>& inputs) {
        return std::vector{std::pair<std::string, Variable>{"y", model(inputs[0])}};
      },
      file, notes);
}

void export_onnx(const Module& model, const std::vector<OnnxInput>& inputs, const OnnxPass& forward,
                 const std::filesystem::path& file, const OnnxNotes& notes) {
  write_file(file, encode_onnx(model, inputs, forward, file, notes));
}

void export_onnx(Layer& model, const Tensor& example, const std::filesystem::path& file,
                 const OnnxNotes& notes) {
  write_file(file, encode_onnx(model, example, file, notes));
}

}  // namespace tasuki
