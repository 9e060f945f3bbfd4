#include "examples.hpp"

#include <fmt/format.h>

#include <span>

#include "models/catalog.hpp"
#include "models/dcgan.hpp"
#include "models/gpt.hpp"
#include "models/mlp.hpp"
#include "models/seq2seq.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/functions/sequences.hpp"
#include "nn/n_step_rnn.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "tests/models/scattered.hpp"

namespace tasuki::testing {
namespace {

namespace F = functions;

Tensor scattered(const Shape& shape, double scale = 1) {
  Tensor made = Tensor::empty(shape);
  scatter_values(made, scale);
  return made;
}

Tensor integers(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(std::span<const std::int64_t>(values), shape);
}

// Ids 0 .. limit - 1 in some order.
Tensor ids(const Shape& shape, std::int64_t limit) {
  Tensor made = Tensor::empty(shape, DType::int64);
  for (std::int64_t i = 0; i < made.count(); ++i) made.data<std::int64_t>()[i] = i * i * 7 % limit;
  return made;
}

// Weights of a useful size, and statistics and biases that are not zeros and ones.
void scatter(Module& model) {
  model.initialize(1);
  for (const auto& [path, parameter] : model.parameters())
    if (parameter->shape().rank() == 1) {
      scatter_values(parameter->value(), 0.2);
      if (path.ends_with("gamma"))
        for (float& value : parameter->value().span<float>()) value += 1;
    }
  for (const auto& [path, buffer] : model.buffers())
    if (buffer->dtype() == DType::float32) {
      scatter_values(*buffer, 0.2);
      if (path.ends_with("avg_var"))
        for (float& value : buffer->span<float>()) value = std::abs(value) + 0.5f;
    }
}

OnnxExample of_layer(const std::string& name, std::shared_ptr<Layer> layer, const Tensor& x) {
  {
    const NoGrad no_grad;
    const TrainingMode evaluation(false);
    (*layer)(Variable(x));  // gives lazily shaped weights their shapes
  }
  scatter(*layer);
  return {name, layer, {{"x", x}}, [layer](const std::vector<Variable>& in) {
            return OnnxResults{{"y", (*layer)(in[0])}};
          }};
}

// A network that is one function.
class Calls : public Layer {
 public:
  explicit Calls(Sequential::Link call) : call_(std::move(call)) {}
  Variable forward(const Variable& x) override { return call_(x); }

 private:
  Sequential::Link call_;
};

OnnxExample of_function(const std::string& name, const Shape& x, Sequential::Link call) {
  return of_layer(name, std::make_shared<Calls>(std::move(call)), scattered(x));
}

void add_catalogue(std::vector<OnnxExample>& all, bool is_small) {
  for (const ModelKind& kind : model_kinds()) {
    const bool has_few_weights = kind.name == "lenet" || kind.name == "resnet20";
    if (is_small && !has_few_weights) continue;
    const Shape image =
        kind.name == "lenet" ? Shape{1, 28, 28} : Shape{3, kind.insize, kind.insize};
    all.push_back(of_layer(kind.name, create_model(kind.name, {.classes = 10, .image = image}),
                           scattered({2, image[0], image[1], image[2]})));
  }
  all.push_back(of_layer("mlp", std::make_shared<MLP>(12, 8, 3), scattered({3, 12})));
  const DcganSettings dcgan = {.channels = 16};
  all.push_back(of_layer("dcgan_generator", std::make_shared<DcganGenerator>(dcgan),
                         scattered({2, dcgan.hidden})));
  all.push_back(of_layer("dcgan_discriminator", std::make_shared<DcganDiscriminator>(dcgan),
                         scattered({2, 3, 32, 32})));
  const auto gpt = std::make_shared<Gpt>(
      GptSettings{.symbols = 17, .layers = 2, .heads = 2, .width = 8, .context = 6});
  all.push_back(of_layer("gpt", gpt, ids({2, 6}, 17)));
  all.push_back(of_layer(
      "gpt2",
      std::make_shared<Gpt>(GptSettings{
          .symbols = 17, .layers = 2, .heads = 2, .width = 8, .context = 6, .is_gpt2 = true}),
      ids({2, 6}, 17)));
}

void add_translation(std::vector<OnnxExample>& all) {
  const auto both = std::make_shared<Seq2seq>(Seq2seqSizes{2, 11, 9, 6});
  scatter(*both);
  const Tensor x = ids({3, 5}, 11), lengths = integers({5, 2, 3}, {3});
  const auto named = [](OnnxResults results, const std::vector<Variable>& states) {
    for (std::size_t i = 0; i < states.size(); ++i)
      results.emplace_back(fmt::format("next_state_{}", i), states[i]);
    return results;
  };
  all.push_back({"seq2seq_encoder",
                 both,
                 {{"x", x, {"time"}}, {"lengths", lengths}},
                 [both, named](const std::vector<Variable>& in) {
                   return named({}, both->encoder().encode(in[0].value(), in[1].value()));
                 }});
  std::vector<OnnxInput> inputs = {{"word", ids({3}, 9)}};
  for (int i = 0; i < 2; ++i) inputs.push_back({fmt::format("state_{}", i), scattered({3, 2, 6})});
  all.push_back(
      {"seq2seq_decoder", both, inputs, [both, named](const std::vector<Variable>& in) {
         auto [scores, next] = both->decoder().step({in.begin() + 1, in.end()}, in[0].value());
         return named({{"scores", scores}}, next);
       }});
}

void add_layers(std::vector<OnnxExample>& all) {
  for (const bool is_lstm : {true, false}) {
    const std::string name = is_lstm ? "two_way_lstm" : "two_way_gru";
    const auto network = std::make_shared<NStepRNN>(is_lstm ? Recurrence::lstm : Recurrence::gru,
                                                    NStepRNN::Direction::both, 2, 4, 3);
    scatter(*network);
    all.push_back({name,
                   network,
                   {{"x", scattered({3, 5, 4})}, {"lengths", integers({5, 1, 3}, {3})}},
                   [network](const std::vector<Variable>& in) {
                     const NStepRNN::Result result = (*network)(in[0], in[1].value());
                     return OnnxResults{{"y", result.y}, {"last", result.states.back()}};
                   }});
  }
  const auto layers = [&](const std::string& name, std::shared_ptr<Layer> layer, const Shape& x) {
    all.push_back(of_layer(name, std::move(layer), scattered(x)));
  };
  layers("layer_norm", std::make_shared<LayerNorm>(7), {3, 7});
  layers("layer_norm_of_axes", std::make_shared<LayerNorm>(std::nullopt), {3, 4, 5});
  layers("group_norm", std::make_shared<GroupNorm>(2, 6), {2, 6, 3, 4});
  layers("batch_norm_of_rows", std::make_shared<BatchNorm>(5), {4, 5});
  layers(
      "grouped_convolution",
      std::make_shared<Conv2d>(
          4, 6, 3, 2,
          Conv2d::Settings{.options = {.stride_h = 2, .pad_h = 1, .dilation_w = 2, .groups = 2}}),
      {2, 4, 9, 8});
  layers("convolution_with_relu",
         std::make_shared<Conv2d>(2, 3, 3, 1, 1, true, initializers::lecun_normal(), true),
         {2, 2, 4, 5});
  layers("deconvolution_of_a_size",
         std::make_shared<Deconv2d>(
             4, 6, 3, 3,
             Deconv2d::Settings{.options = {.stride_h = 2, .stride_w = 2, .groups = 2},
                                .size = std::pair<std::int64_t, std::int64_t>{10, 9}}),
         {2, 4, 4, 4});
  const auto embedding =
      std::make_shared<EmbedID>(5, 3, initializers::normal(1), std::optional<std::int64_t>(-1));
  scatter(*embedding);
  all.push_back(of_layer("embedding_with_ignored", embedding, integers({1, -1, 4, 0}, {2, 2})));
}

void add_functions(std::vector<OnnxExample>& all) {
  const auto add = [&](const std::string& name, const Shape& x, Sequential::Link call) {
    all.push_back(of_function(name, x, std::move(call)));
  };
  using V = const Variable&;
  add("numbers", {2, 3}, [](V x) { return (2 - x * 3) / 4 + 1 / (x + 5) - 0.5f; });
  add("powers", {2, 3}, [](V x) { return F::pow(F::abs(x) + 1, 1.5f) + F::sqrt(F::exp(x)); });
  add("logarithm", {2, 3}, [](V x) { return F::log(F::clip(x, 0.1f, 0.7f)) - (-x); });
  add("of_two", {2, 3}, [](V x) {
    const Variable y = x * x + 1;
    return F::maximum(F::minimum(x, 0.3f * y), x / y) - F::pow(y, x) * y;
  });
  add("activations", {2, 8}, [](V x) {
    return F::gelu(x) + F::gelu(x, true) + F::silu(x) + F::elu(x, 0.7f) + F::softplus(x, 2) +
           F::leaky_relu(x, 0.1f) + F::tanh(x) + F::sigmoid(x) + F::relu(x);
  });
  add("softmax", {2, 3, 4}, [](V x) { return F::softmax(x, 1) + F::log_softmax(x, 2); });
  add("reductions", {2, 3, 4},
      [](V x) { return F::sum(x, {1}) + F::mean(x, {1}) * F::max(x, {-2}) - F::min(x, {1}); });
  add("kept_axes", {2, 3, 4}, [](V x) { return x - F::mean(x, {1, 2}, true); });
  add("parts", {2, 3, 6}, [](V x) {
    const std::vector<Variable> split = F::split(F::transpose(x, {0, 2, 1}), 3, 1);
    return F::concat({F::slice(split[0] * 2, {{0, 100}, {0, 1}}), split[1], F::neg(split[2])}, 1);
  });
  add("padding", {2, 3, 4}, [](V x) { return F::pad(x, {{0, 0}, {1, 2}, {3, 0}}, -0.5f); });
  add("repeated", {2, 3}, [](V x) {
    const Variable twice = F::get_item(F::stack({x, x * 2}, 1), 1, 1);
    return F::broadcast_to(F::expand_dims(twice, 1), {x.shape()[0], 4, 3});
  });
  add("folded", {2, 3, 4}, [](V x) {
    const Shape& shape = x.shape();
    return F::reshape(F::reshape(x * 2, {shape[0] * shape[1], shape[2]}), {shape[0], 12});
  });
  add("products", {2, 3, 4}, [](V x) {
    const Variable square = F::matmul(x, x, false, true);
    return F::matmul(square, x) + F::transpose(F::matmul(x, square, true, false), {0, 2, 1});
  });
  add("pooling", {2, 3, 7, 8}, [](V x) { return F::max_pooling_2d(x, 3, 2, 1, true); });
  add("pooling_within", {2, 3, 7, 8}, [](V x) { return F::max_pooling_2d(x, 3, 2, 0, false); });
  add("averages", {2, 3, 7, 8}, [](V x) {
    return F::average_pooling_2d(x, 3, 2, 1) + F::relu_average_pooling_2d(x, 3, 2, 1);
  });
  add("response_norm", {2, 7, 3, 3}, [](V x) {
    return F::local_response_norm(x, {.window = 4, .k = 1, .alpha = 0.1f, .beta = 0.6f});
  });
  for (const bool aligned : {false, true})
    add(aligned ? "resized_corners" : "resized", {2, 3, 4, 5},
        [aligned](V x) { return F::resize_images(x, 7, 9, {.align_corners = aligned}); });
  add("upsampled", {2, 3, 4, 5},
      [](V x) { return F::upsampling_2d(x, 2, {.interpolation = Interpolation::nearest}); });
  for (const bool causal : {false, true}) {
    const auto call = [causal](const std::vector<Variable>& in) {
      return OnnxResults{
          {"y", F::self_attention(in[0], {2, causal, in.size() > 1 ? in[1].value() : Tensor()})}};
    };
    const auto none = std::make_shared<Calls>([](V x) { return x; });
    const OnnxInput x = {"x", scattered({3, 5, 24}, 2)};
    all.push_back({causal ? "causal_attention" : "attention", none, {x}, call});
    all.push_back({causal ? "causal_padded_attention" : "padded_attention",
                   none,
                   {x, {"lengths", integers({5, 0, 2}, {3})}},
                   call});
  }
}

}  // namespace

std::vector<OnnxExample> onnx_examples(bool is_small) {
  std::vector<OnnxExample> all;
  add_functions(all);
  add_layers(all);
  add_translation(all);
  add_catalogue(all, is_small);
  return all;
}

}  // namespace tasuki::testing
