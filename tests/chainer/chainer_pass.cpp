// Runs a layer or a model of ours forward and backward on arrays of a file, for check.py, which
// compares the results with Chainer's.
//
//   chainer_pass CASE INPUTS.npz RESULTS.npz
//
// Inputs: weights and running statistics under "model/"; "x"; what the case takes beside it
// ("lengths"). With "dy0", "dy1", ..., one for each result, it runs as in training, else as in
// evaluations. Results: "y0", "y1", ..., and in training the gradients of the sum of all yi * dyi:
// "dx" of a float x, "grad/<path>" of the weights.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/dcgan.hpp"
#include "nn/connection.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/n_step_rnn.hpp"
#include "nn/normalization.hpp"
#include "saving/model_file.hpp"
#include "saving/npz.hpp"
#include "tests/support/weighted_sum.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tasuki;
namespace F = tasuki::functions;

Tensor array(const NpzFile& file, const std::string& name) {
  return std::get<Tensor>(file.read(name));
}

struct Subject {
  std::unique_ptr<Module> model;
  std::function<std::vector<Variable>(const Variable& x, const NpzFile& inputs)> forward;
};

Subject of_layer(std::unique_ptr<Layer> layer) {
  Layer* const called = layer.get();
  return {std::move(layer), [called](const Variable& x, const NpzFile&) {
            return std::vector<Variable>{(*called)(x)};
          }};
}

Subject recurrent(std::unique_ptr<NStepRNN> rnn) {
  NStepRNN* const called = rnn.get();
  return {std::move(rnn), [called](const Variable& x, const NpzFile& inputs) {
            auto [y, states] = (*called)(x, array(inputs, "lengths"));
            states.insert(states.begin(), y);
            return states;
          }};
}

// Sizes are those of check.py's functions of these names.
const std::map<std::string, std::function<Subject()>> subjects = {
    {"n_step_lstm", [] { return recurrent(std::make_unique<NStepLSTM>(2, 3, 4)); }},
    {"n_step_bilstm", [] { return recurrent(std::make_unique<NStepBiLSTM>(2, 3, 4)); }},
    {"n_step_gru", [] { return recurrent(std::make_unique<NStepGRU>(2, 3, 4)); }},
    {"n_step_bigru", [] { return recurrent(std::make_unique<NStepBiGRU>(2, 3, 4)); }},
    {"layer_norm", [] { return of_layer(std::make_unique<LayerNorm>(6)); }},
    {"group_norm", [] { return of_layer(std::make_unique<GroupNorm>(3, 6)); }},
    {"embed_id", [] { return of_layer(std::make_unique<EmbedID>(7, 5)); }},
    {"deconvolution",
     [] {
       Deconv2d::Settings settings{.bias = true, .options = {}, .size = {}};
       settings.options.stride_h = 2;
       settings.options.stride_w = 3;
       settings.options.pad_h = settings.options.pad_w = 1;
       settings.options.groups = 2;
       return of_layer(std::make_unique<Deconv2d>(4, 6, 3, 4, settings));
     }},
    {"local_response_norm",
     [] {
       return Subject{std::make_unique<Module>(), [](const Variable& x, const NpzFile&) {
                        return std::vector<Variable>{F::local_response_norm(x)};
                      }};
     }},
    {"dcgan_gen",
     [] {
       return of_layer(
           std::make_unique<DcganGenerator>(DcganSettings{.hidden = 10, .channels = 16}));
     }},
    {"dcgan_dis",
     [] {
       return of_layer(
           std::make_unique<DcganDiscriminator>(DcganSettings{.hidden = 10, .channels = 16}));
     }},
};

int run(int argc, char** argv) {
  if (argc != 4) fail(ErrorKind::usage, "expected CASE INPUTS.npz RESULTS.npz");
  const auto found = subjects.find(argv[1]);
  if (found == subjects.end()) fail(ErrorKind::usage, "there is no case {}", argv[1]);
  const NpzFile inputs(argv[2]);
  const auto [model, forward] = found->second();
  model->initialize(0);
  load_npz(inputs, *model, "model/");

  const bool is_training = inputs.find("dy0").has_value();
  const TrainingMode mode(is_training);
  Tensor values = array(inputs, "x");
  const bool has_gradient = is_training && values.dtype() == DType::float32;
  const Variable x(std::move(values), has_gradient);
  const std::vector<Variable> results = forward(x, inputs);
  std::vector<NpzEntry> entries;
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < results.size(); ++i) {
    entries.push_back({fmt::format("y{}", i), results[i].value()});
    if (is_training) weights.push_back(array(inputs, fmt::format("dy{}", i)));
  }
  if (is_training) testing::weighted_sum(results, std::move(weights)).backward();
  if (has_gradient) entries.push_back({"dx", x.grad()});
  for (const auto& [path, parameter] : model->parameters())
    if (parameter->grad().defined()) entries.push_back({"grad/" + path, parameter->grad()});
  write_npz(argv[3], entries);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tasuki::run_tool([&] { return run(argc, argv); });
}
