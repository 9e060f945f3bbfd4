// Writes networks as ONNX models (https://onnx.ai), which other programs can run, such as ONNX
// Runtime. The file is written by libtasuki_onnx.so, which needs Debian's libonnx and is loaded for
// the first export; a build without it, and whatever is missing, is an error of kind unavailable.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer.hpp"

namespace tasuki {

// An input of the exported network. Its first axis is the number of examples, at least 1, and has
// any size in the model. `also_any` names further axes of any size, from axis 1 on.
struct OnnxInput {
  std::string name;
  Tensor example;
  std::vector<std::string> also_any = {};
};

// The forward pass: named results of the inputs.
using OnnxPass = std::function<std::vector<std::pair<std::string, Variable>>(
    const std::vector<Variable>& inputs)>;

// What the file says besides the network: name and value of each entry.
using OnnxNotes = std::vector<std::pair<std::string, std::string>>;

// Writes the functions that `forward` calls with inputs of the examples' shapes, without training
// (TrainingMode(false)), and their weights. The pass is run twice, with two numbers of examples,
// so that what depends on that number is found. Weights have their paths in `model` as names, and
// nodes the name of their layer and function: "conv1/conv2d". Operators are those of opset 17,
// types float32 and those of the inputs. The model must be on the CPU, initialised.
//
//   export_onnx(net, {{"x", images}}, [&](const auto& in) {
//     return std::vector{std::pair{std::string("y"), net(in[0])}};
//   }, "net.onnx");
//
// The file replaces one of this name when it is complete. A usage error names a function that has
// no translation. Values that the pass computes on the host, without functions of
// tasuki::functions, become constants; those that differ between the two passes are refused.
void export_onnx(const Module& model, const std::vector<OnnxInput>& inputs, const OnnxPass& forward,
                 const std::filesystem::path& file, const OnnxNotes& notes = {});

// A layer with one input, "x", and one result, "y".
void export_onnx(Layer& model, const Tensor& example, const std::filesystem::path& file,
                 const OnnxNotes& notes = {});

// What export_onnx() would write to `file`: for models in several files (write_files), or for other
// places than files.
std::string encode_onnx(const Module& model, const std::vector<OnnxInput>& inputs,
                        const OnnxPass& forward, const std::filesystem::path& file,
                        const OnnxNotes& notes = {});
std::string encode_onnx(Layer& model, const Tensor& example, const std::filesystem::path& file,
                        const OnnxNotes& notes = {});

}  // namespace tasuki
