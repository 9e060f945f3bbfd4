#include "nn/functions/mapped.hpp"

#include "nn/function.hpp"
#include "nn/functions/operand_type.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

class Mapped final : public Function {
 public:
  Mapped(const char* name, Map f, Tensor kept, float p, float q)
      : name_(name), f_(f), kept_(std::move(kept)), p_(p), q_(q) {}
  const char* name() const override { return name_; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).elementwise().map_gradient(f_, kept_, dy, p_, q_));
  }

 private:
  const char* name_;
  Map f_;
  Tensor kept_;  // the result if gradient_needs_result(f_), else x
  float p_, q_;
};

// Its gradient depends on neither x nor the result, so nothing is kept.
class Affine final : public Function {
 public:
  Affine(const char* name, float factor) : name_(name), factor_(factor) {}
  const char* name() const override { return name_; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(
        0, factor_ == 1 ? dy : backend(dy.device()).elementwise().map(Map::affine, dy, factor_, 0));
  }

 private:
  const char* name_;
  float factor_;
};

}  // namespace

Variable mapped(const char* name, Map f, const Variable& x, float p, float q) {
  check_operand_type(name, x);
  const Tensor y = backend(x.value().device()).elementwise().map(f, x.value(), p, q);
  return Function::record(y, {x}, [&]() -> std::unique_ptr<Function> {
    if (f == Map::affine) return std::make_unique<Affine>(name, p);
    return std::make_unique<Mapped>(name, f, gradient_needs_result(f) ? y : x.value(), p, q);
  });
}

}  // namespace tasuki
