#include "saving/onnx/export_onnx.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/own_library.hpp"
#include "nn/call_recorder.hpp"
#include "saving/onnx/entry.hpp"
#include "saving/onnx/translation.hpp"

namespace tasuki {
namespace {

using onnx_graph::Graph;
using onnx_graph::Pass;

// An axis with `size` elements, the given ones again and again.
Tensor repeated(const Tensor& x, int axis, std::int64_t size) {
  Shape shape = x.shape();
  const std::int64_t before = shape[axis];
  shape[axis] = size;
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(size_of(x.dtype()));
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  Tensor result = Tensor::empty(shape, x.dtype());
  const Tensor plain = x.plain();
  const auto* const from = static_cast<const std::byte*>(plain.raw());
  auto* const to = static_cast<std::byte*>(result.raw());
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < size; ++i)
      std::copy_n(from + (o * before + i % before) * inner, inner, to + (o * size + i) * inner);
  return result;
}

// The inputs with this many examples, and so many elements more along other axes of any size.
std::vector<Variable> inputs_of(const std::vector<OnnxInput>& inputs, std::int64_t examples,
                                std::int64_t more) {
  std::vector<Variable> made;
  for (const OnnxInput& input : inputs) {
    TASUKI_CHECK(input.example.shape().rank() > static_cast<int>(input.also_any.size()) &&
                     input.example.count() > 0,
                 "export_onnx: input {} of {} has no example or too few axes", input.name,
                 input.example.shape().text());
    Tensor x = repeated(input.example, 0, examples);
    for (int axis = 1; axis <= static_cast<int>(input.also_any.size()); ++axis)
      x = repeated(x, axis, x.shape()[axis] + more);
    made.emplace_back(x);
  }
  return made;
}

Pass record(const std::vector<OnnxInput>& inputs, const OnnxPass& forward, std::int64_t examples,
            std::int64_t more) {
  const TrainingMode evaluation(false);
  const CallRecorder recorder;
  const std::vector<Variable> values = inputs_of(inputs, examples, more);
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

void export_onnx(const Module& model, const std::vector<OnnxInput>& inputs, const OnnxPass& forward,
                 const std::filesystem::path& file, const OnnxNotes& notes) {
  const WriteOnnx write = writer();
  constexpr std::int64_t few = 2, more = 3;
  const Pass pass = record(inputs, forward, few, 0), larger = record(inputs, forward, more, 2);
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
  write_file(file, bytes);
}

void export_onnx(Layer& model, const Tensor& example, const std::filesystem::path& file,
                 const OnnxNotes& notes) {
  export_onnx(
      model, {{"x", example}},
      [&](const std::vector<Variable>& inputs) {
        return std::vector{std::pair<std::string, Variable>{"y", model(inputs[0])}};
      },
      file, notes);
}

}  // namespace tasuki
