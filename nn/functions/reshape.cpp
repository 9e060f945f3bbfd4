#include "nn/functions/arrays.hpp"

#include "nn/function.hpp"

namespace tasuki::functions {
namespace {

class Reshape final : public Function {
 public:
  explicit Reshape(const Shape& from) : from_(from) {}
  const char* name() const override { return "reshape"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, dy.reshape(from_));
  }

 private:
  Shape from_;
};

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  return Function::record(x.value().reshape(shape), {x},
                          [&] { return std::make_unique<Reshape>(x.shape()); });
}

Variable flatten(const Variable& x) {
  TASUKI_CHECK(x.shape().rank() >= 1, "flatten: a scalar has no axis of examples");
  return reshape(x, {x.shape()[0], x.shape().count_per_item()});
}

}  // namespace tasuki::functions
