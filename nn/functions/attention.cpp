#include "nn/functions/sequences.hpp"

#include <cmath>

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "tensor/attention_operations.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {
namespace {

AttentionOptions options_of(const AttentionSettings& settings, std::int64_t width) {
  TASUKI_CHECK(settings.heads > 0 && width > 0 && width % settings.heads == 0,
               "attention: a width of {} cannot be divided into {} heads", width, settings.heads);
  const std::int64_t head_width = width / settings.heads;
  return {settings.heads, head_width, 1 / std::sqrt(static_cast<float>(head_width)),
          settings.causal, settings.lengths};
}

void describe_attention(CallSettings& settings, const AttentionOptions& options) {
  settings.set("heads", options.heads);
  settings.set("scale", static_cast<double>(options.scale));
  settings.set("causal", options.causal);
  if (options.lengths) settings.set("lengths", options.lengths);
}

// Of scores and of weighted values; lengths count as if all items were complete.
double multiply_adds_of(const Shape& q, const Shape& k, bool causal) {
  const auto queries = static_cast<double>(q[1]), keys = static_cast<double>(k[1]);
  const double pairs = causal ? queries * (queries + 1) / 2 : queries * keys;
  return 2 * static_cast<double>(q[0] * k[2]) * pairs;
}

class SelfAttention final : public Function {
 public:
  SelfAttention(Tensor qkv, AttentionResult forward, AttentionOptions options)
      : qkv_(std::move(qkv)), forward_(std::move(forward)), options_(std::move(options)) {}
  const char* name() const override { return "self_attention"; }
  void describe(CallSettings& settings) const override { describe_attention(settings, options_); }
  double multiply_adds(const std::vector<Variable>&, const Tensor& y) const override {
    return multiply_adds_of(y.shape(), y.shape(), options_.causal);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const std::int64_t width = options_.heads * options_.head_width;
    Tensor dx = Tensor::empty(qkv_.shape(), qkv_.dtype(), qkv_.device());
    backend(dy.device())
        .attention()
        .attention_gradient({qkv_, 0}, {qkv_, width}, {qkv_, 2 * width}, forward_, dy, options_,
                            {dx, 0}, {dx, width}, {dx, 2 * width});
    gradients.add(0, std::move(dx));
  }

 private:
  Tensor qkv_;
  AttentionResult forward_;
  AttentionOptions options_;
};

class Attention final : public Function {
 public:
  Attention(Tensor q, Tensor k, Tensor v, AttentionResult forward, AttentionOptions options)
      : q_(std::move(q)),
        k_(std::move(k)),
        v_(std::move(v)),
        forward_(std::move(forward)),
        options_(std::move(options)) {}
  const char* name() const override { return "attention"; }
  void describe(CallSettings& settings) const override { describe_attention(settings, options_); }
  double multiply_adds(const std::vector<Variable>&, const Tensor&) const override {
    return multiply_adds_of(q_.shape(), k_.shape(), options_.causal);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const auto like = [](const Tensor& x) {
      return Tensor::empty(x.shape(), x.dtype(), x.device());
    };
    Tensor dq = like(q_), dk = like(k_), dv = like(v_);
    backend(dy.device())
        .attention()
        .attention_gradient({q_}, {k_}, {v_}, forward_, dy, options_, {dq}, {dk}, {dv});
    if (gradients.needed(0)) gradients.add(0, std::move(dq));
    if (gradients.needed(1)) gradients.add(1, std::move(dk));
    if (gradients.needed(2)) gradients.add(2, std::move(dv));
  }

 private:
  Tensor q_, k_, v_;
  AttentionResult forward_;
  AttentionOptions options_;
};

}  // namespace

Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionSettings& settings) {
  for (const Variable* const each : {&q, &k, &v})
    TASUKI_CHECK(each->shape().rank() == 3 && each->shape()[2] == q.shape()[2],
                 "attention: expected q, k and v of N x T x width each, found {}, {} and {}",
                 q.shape().text(), k.shape().text(), v.shape().text());
  AttentionOptions options = options_of(settings, q.shape()[2]);
  const Tensor from = q.value().plain(), keys = k.value().plain(), values = v.value().plain();
  AttentionResult forward =
      backend(from.device()).attention().attention({from}, {keys}, {values}, options);
  const Tensor y = forward.y;
  return Function::record(y, {q, k, v}, [&] {
    return std::make_unique<Attention>(from, keys, values, std::move(forward), std::move(options));
  });
}

Variable self_attention(const Variable& qkv, const AttentionSettings& settings) {
  TASUKI_CHECK(qkv.shape().rank() == 3 && qkv.shape()[2] % 3 == 0,
               "self_attention: expected N x T x (3 heads d), found {}", qkv.shape().text());
  const std::int64_t width = qkv.shape()[2] / 3;
  AttentionOptions options = options_of(settings, width);
  const Tensor x = qkv.value().plain();
  AttentionResult forward =
      backend(x.device()).attention().attention({x, 0}, {x, width}, {x, 2 * width}, options);
  const Tensor y = forward.y;
  return Function::record(y, {qkv}, [&] {
    return std::make_unique<SelfAttention>(x, std::move(forward), std::move(options));
  });
}

}  // namespace tasuki::functions
