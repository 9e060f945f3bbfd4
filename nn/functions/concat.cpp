#include "nn/functions/arrays.hpp"

#include "nn/call_recorder.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

class Concat final : public Function {
 public:
  Concat(int axis, std::vector<std::int64_t> sizes) : axis_(axis), sizes_(std::move(sizes)) {}
  const char* name() const override { return "concat"; }
  void describe(CallSettings& settings) const override {
    settings.set("axis", std::int64_t{axis_});
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    const Tensor plain = dy.plain();
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const std::int64_t end = begin + sizes_[i];
      if (gradients.needed(i))
        gradients.add(i, backend(dy.device()).take(plain, axis_, begin, end));
      begin = end;
    }
  }

 private:
  int axis_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace

Variable concat(const std::vector<Variable>& parts, int axis) {
  TASUKI_CHECK(!parts.empty(), "concat: expected values, found none");
  std::vector<Tensor> tensors;
  tensors.reserve(parts.size());
  for (const Variable& part : parts) tensors.push_back(part.value());
  const int along = checked_axis(axis, tensors[0].shape(), "concat");
  Tensor joined = backend(tensors[0].device()).concat(tensors, along);
  return Function::record(std::move(joined), parts, [&] {
    std::vector<std::int64_t> sizes;
    sizes.reserve(tensors.size());
    for (const Tensor& tensor : tensors) sizes.push_back(tensor.shape()[along]);
    return std::make_unique<Concat>(along, std::move(sizes));
  });
}

}  // namespace tasuki::functions
