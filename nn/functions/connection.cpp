#include "nn/functions/connection.hpp"

#include "core/error.hpp"
#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "nn/functions/arrays.hpp"
#include "tensor/backend.hpp"
#include "tensor/elementwise_operations.hpp"
#include "tensor/geometry.hpp"
#include "tensor/image_operations.hpp"
#include "tensor/sequence_operations.hpp"

namespace tasuki::functions {
namespace {

// The backward pass of functions of x, w, b (linear, conv2d, deconv2d). Calls weights(dw,
// accumulate, db) to write the gradient of w and, if db is defined, the gradient of b, which is
// overwritten: devices can do both at once. Calls data() for the gradient of x. Gradients that are
// not needed are skipped, and so is the gradient of w if it is computed later. Parameters come
// first, so that their exchange can start while the rest is computed.
template <class Weights, class Data>
void backward_of_weighted(const Tensor& dy, const Shape& w, Gradients& gradients,
                          const Weights& weights, const Data& data, bool weights_are_late = false) {
  Tensor db;
  const bool needs_weights = gradients.needed(1) && !weights_are_late;
  if (gradients.needed(2)) {
    const auto [gradient, accumulate] = gradients.into(2, Shape{dy.shape()[1]});
    if (accumulate || !needs_weights)
      backend(dy.device()).backward_bias(dy, gradient, accumulate);
    else
      db = gradient;
  }
  if (needs_weights) {
    const auto [dw, accumulate] = gradients.into(1, w);
    weights(dw, accumulate, db);
  }
  // Parameters were registered in the order w, b; arenas have the reverse order.
  if (gradients.needed(2)) gradients.written(2);
  if (gradients.needed(1)) gradients.written(1);
  if (gradients.needed(0)) gradients.add(0, data());
}

// The gradient before a ReLU whose result was y; without one y is undefined.
Tensor before_relu(const Tensor& y, const Tensor& upstream) {
  return y ? backend(upstream.device()).unary_backward(Unary::relu, y, upstream, 0) : upstream;
}

// Each weight is multiplied once at each of these places.
double each_at(const Tensor& w, std::int64_t places) {
  return static_cast<double>(w.count()) * static_cast<double>(places);
}

}  // namespace

// --- linear ---

namespace {

class Linear : public Function {
 public:
  // `y` is kept only with ReLU, for its signs.
  Linear(Tensor x, Tensor w, Tensor y) : x_(std::move(x)), w_(std::move(w)), y_(std::move(y)) {}
  const char* name() const override { return "linear"; }
  void describe(CallSettings& settings) const override { settings.set("relu", y_.defined()); }
  double multiply_adds(const std::vector<Variable>&, const Tensor& y) const override {
    return each_at(w_, y.count() / w_.shape()[0]);
  }

  void backward(const Tensor& upstream, Gradients& gradients) override {
    Backend& device = backend(upstream.device());
    const Tensor dy = before_relu(y_, upstream);
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          device.linear_backward_weights(x_, dy, dw, accumulate, db);
        },
        [&] { return device.linear_backward_data(dy, w_); }, weights_are_late(dy, gradients));
  }

 private:
  bool weights_are_late(const Tensor& dy, Gradients& gradients) const {
    return gradients.needed(1) && dy.count() > 0 && dy.dtype() == DType::float32 &&
           dy.device().is_cpu() && gradients.take_product(1, dy.plain(), x_.plain());
  }

  Tensor x_, w_, y_;
};

}  // namespace

Variable linear(const Variable& input, const Variable& w, const Variable& b, bool relu) {
  const Variable x = input.shape().rank() == 2 ? input : flatten(input);
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  Tensor y = backend(x.value().device()).linear(x.value(), weights, b.value_as(type), relu);
  return Function::record(y, {x, w, b}, [&] {
    return std::make_unique<Linear>(x.value(), weights, relu ? y : Tensor());
  });
}

namespace {

class AddLinear final : public Linear {
 public:
  AddLinear(Tensor x, Tensor w) : Linear(std::move(x), std::move(w), Tensor()) {}
  const char* name() const override { return "add_linear"; }

  void backward(const Tensor& upstream, Gradients& gradients) override {
    Linear::backward(upstream, gradients);
    if (gradients.needed(3)) gradients.add(3, upstream);
  }
};

}  // namespace

Variable add_linear(const Variable& added, const Variable& input, const Variable& w,
                    const Variable& b) {
  const Variable x = input.shape().rank() == 2 ? input : flatten(input);
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  return Function::record(
      backend(x.value().device())
          .add_linear(added.value_as(type).to(type), x.value(), weights, b.value_as(type)),
      {x, w, b, added}, [&] { return std::make_unique<AddLinear>(x.value(), weights); });
}

namespace {

class LinearGelu final : public Linear {
 public:
  LinearGelu(Tensor x, Tensor w, Tensor before, bool approximate)
      : Linear(std::move(x), std::move(w), Tensor()),
        before_(std::move(before)),
        approximate_(approximate) {}
  const char* name() const override { return "linear_gelu"; }
  void describe(CallSettings& settings) const override {
    settings.set("approximate", approximate_);
  }

  void backward(const Tensor& upstream, Gradients& gradients) override {
    const Map gelu = approximate_ ? Map::gelu_tanh : Map::gelu;
    Linear::backward(
        backend(upstream.device()).elementwise().map_gradient(gelu, before_, upstream, 0, 0),
        gradients);
  }

 private:
  Tensor before_;
  bool approximate_;
};

}  // namespace

Variable linear_gelu(const Variable& input, const Variable& w, const Variable& b,
                     bool approximate) {
  const Variable x = input.shape().rank() == 2 ? input : flatten(input);
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  Tensor before;
  Tensor y = backend(x.value().device())
                 .linear_gelu(x.value(), weights, b.value_as(type), approximate, &before);
  return Function::record(std::move(y), {x, w, b}, [&] {
    return std::make_unique<LinearGelu>(x.value(), weights, before, approximate);
  });
}

// --- conv2d ---

namespace {

void describe_convolution(CallSettings& settings, const Conv2dOptions& o) {
  settings.set("stride", std::vector{o.stride_h, o.stride_w});
  settings.set("pad", std::vector{o.pad_h, o.pad_w});
  settings.set("dilation", std::vector{o.dilation_h, o.dilation_w});
  settings.set("groups", o.groups);
}

class Conv2dFunction final : public Function {
 public:
  // `y` is kept only with ReLU, for its signs.
  Conv2dFunction(Tensor x, Tensor w, Tensor y, const Conv2dOptions& options)
      : x_(std::move(x)), w_(std::move(w)), y_(std::move(y)), options_(options) {}
  const char* name() const override { return "conv2d"; }
  void describe(CallSettings& settings) const override {
    describe_convolution(settings, options_);
    settings.set("relu", y_.defined());
  }
  double multiply_adds(const std::vector<Variable>& inputs, const Tensor& y) const override {
    return each_at(inputs[1].value(), y.count() / y.shape()[1]);
  }

  void backward(const Tensor& upstream, Gradients& gradients) override {
    Backend& device = backend(upstream.device());
    const Tensor dy = before_relu(y_, upstream);
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          if (db) device.backward_bias(dy, db, false);
          device.conv2d_backward_weights(x_, dy, dw, options_, accumulate);
        },
        [&] { return device.conv2d_backward_data(dy, w_, x_.shape(), options_); });
  }

 private:
  Tensor x_, w_, y_;
  Conv2dOptions options_;
};

}  // namespace

Variable conv2d(const Variable& x, const Variable& w, const Variable& b,
                const Conv2dOptions& options, bool relu) {
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  Tensor prepared;
  const Tensor y = backend(x.value().device())
                       .conv2d(x.value(), weights, b.value_as(type), options, &prepared, relu);
  return Function::record(y, {x, w, b}, [&] {
    return std::make_unique<Conv2dFunction>(x.value(), prepared, relu ? y : Tensor(), options);
  });
}

// --- deconv2d ---

namespace {

class Deconv2dFunction final : public Function {
 public:
  Deconv2dFunction(Tensor x, Tensor w, const Conv2dOptions& options)
      : x_(std::move(x)), w_(std::move(w)), options_(options) {}
  const char* name() const override { return "deconv2d"; }
  void describe(CallSettings& settings) const override { describe_convolution(settings, options_); }
  double multiply_adds(const std::vector<Variable>& inputs, const Tensor&) const override {
    return each_at(inputs[1].value(), x_.count() / x_.shape()[1]);
  }

  // With the roles of input and result exchanged.
  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          if (db) device.backward_bias(dy, db, false);
          device.conv2d_backward_weights(dy, x_, dw, options_, accumulate);
        },
        [&] { return device.conv2d(dy, w_, {}, options_); });
  }

 private:
  Tensor x_, w_;
  Conv2dOptions options_;
};

Shape deconv2d_shape(const Shape& x, const Shape& w, const Conv2dOptions& o,
                     std::optional<std::pair<std::int64_t, std::int64_t>> size) {
  TASUKI_CHECK(
      x.rank() == 4 && w.rank() == 4 && o.groups >= 1 && x[1] == w[0] && x[1] % o.groups == 0,
      "deconv2d: images of {} and weights of {} (in x out/groups x KH x KW) in {} groups "
      "do not fit",
      x.text(), w.text(), o.groups);
  const auto natural = [](std::int64_t in, std::int64_t kernel, std::int64_t stride,
                          std::int64_t pad, std::int64_t dilation) {
    return stride * (in - 1) + dilation * (kernel - 1) + 1 - 2 * pad;
  };
  if (!size)
    size = {natural(x[2], w[2], o.stride_h, o.pad_h, o.dilation_h),
            natural(x[3], w[3], o.stride_w, o.pad_w, o.dilation_w)};
  TASUKI_CHECK(size->first > 0 && size->second > 0,
               "deconv2d of {} with weights of {}: the result cannot have {} x {} pixels", x.text(),
               w.text(), size->first, size->second);
  const Shape y{x[0], w[1] * o.groups, size->first, size->second};
  TASUKI_CHECK(ConvolutionGeometry(y, w, o).y == x,
               "deconv2d of {} with weights of {}: a convolution of {} x {} pixels does not give "
               "this input",
               x.text(), w.text(), size->first, size->second);
  return y;
}

}  // namespace

Variable deconv2d(const Variable& x, const Variable& w, const Variable& b,
                  const Conv2dOptions& options,
                  std::optional<std::pair<std::int64_t, std::int64_t>> size) {
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  const Shape shape = deconv2d_shape(x.shape(), w.shape(), options, size);
  Backend& device = backend(x.value().device());
  Tensor y = device.conv2d_backward_data(x.value(), weights, shape, options);
  if (b.defined()) device.images().add_bias(y, b.value_as(type));
  return Function::record(std::move(y), {x, w, b}, [&] {
    return std::make_unique<Deconv2dFunction>(x.value(), weights, options);
  });
}

// --- embed_id ---

namespace {

class EmbedId final : public Function {
 public:
  EmbedId(Tensor ids, Shape w, std::optional<std::int64_t> ignore)
      : ids_(std::move(ids)), w_(w), ignore_(ignore) {}
  const char* name() const override { return "embed_id"; }
  void describe(CallSettings& settings) const override {
    settings.set("ids", ids_);
    if (ignore_) settings.set("ignore_label", *ignore_);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const auto [dw, accumulate] = gradients.into(0, w_);
    backend(dy.device()).sequences().embed_backward(ids_, dy, ignore_, dw, accumulate);
  }

 private:
  Tensor ids_;
  Shape w_;
  std::optional<std::int64_t> ignore_;
};

// Ids do not say which type activations have.
Tensor embedding_weights(const Variable& w) {
  for (const DType type : {DType::bfloat16, DType::float16})
    if (Tensor rounded = w.value_as(type); rounded.dtype() == type) return rounded;
  return w.value();
}

}  // namespace

Variable embed_id(const Tensor& ids, const Variable& w, std::optional<std::int64_t> ignore_label) {
  const Tensor plain = ids.plain();
  Tensor y =
      backend(w.value().device()).sequences().embed(embedding_weights(w), plain, ignore_label);
  return Function::record(
      std::move(y), {w}, [&] { return std::make_unique<EmbedId>(plain, w.shape(), ignore_label); });
}

}  // namespace tasuki::functions
