#include "nn/functions/arrays.hpp"

#include "nn/call_recorder.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

class Matmul final : public Function {
 public:
  Matmul(Tensor a, bool transpose_a, DType type_a, Tensor b, bool transpose_b, DType type_b)
      : a_(std::move(a)),
        b_(std::move(b)),
        transpose_a_(transpose_a),
        transpose_b_(transpose_b),
        type_a_(type_a),
        type_b_(type_b) {}
  const char* name() const override { return "matmul"; }
  void describe(CallSettings& settings) const override {
    settings.set("transpose_a", transpose_a_);
    settings.set("transpose_b", transpose_b_);
  }
  double multiply_adds(const std::vector<Variable>&, const Tensor& y) const override {
    const Shape& a = a_.shape();
    return static_cast<double>(y.count()) *
           static_cast<double>(a[a.rank() - (transpose_a_ ? 2 : 1)]);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    ArrayOperations& arrays = backend(dy.device()).arrays();
    // The gradient of a single matrix is a sum over all its products.
    const bool sums_a = a_.shape().rank() < dy.shape().rank();
    const bool sums_b = b_.shape().rank() < dy.shape().rank();
    if (gradients.needed(1))
      gradients.add(1, (transpose_b_ ? arrays.matmul(dy, true, a_, transpose_a_, sums_b)
                                     : arrays.matmul(a_, !transpose_a_, dy, false, sums_b))
                           .to(type_b_));
    if (gradients.needed(0))
      gradients.add(0, (transpose_a_ ? arrays.matmul(b_, transpose_b_, dy, true, sums_a)
                                     : arrays.matmul(dy, false, b_, !transpose_b_, sums_a))
                           .to(type_a_));
  }

 private:
  Tensor a_, b_;
  bool transpose_a_, transpose_b_;
  DType type_a_, type_b_;  // of the operands before they were converted
};

}  // namespace

Variable matmul(const Variable& a, const Variable& b, bool transpose_a, bool transpose_b) {
  const DType type = common_type(a, b, "matmul");
  const Tensor left = a.value_as(type).to(type), right = b.value_as(type).to(type);
  return Function::record(
      backend(left.device()).arrays().matmul(left, transpose_a, right, transpose_b, false), {a, b},
      [&] {
        return std::make_unique<Matmul>(left, transpose_a, a.value().dtype(), right, transpose_b,
                                        b.value().dtype());
      });
}

}  // namespace tasuki::functions
