#include "nn/functions/add.hpp"

#include "nn/function.hpp"
#include "nn/functions/broadcast_pair.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

class Add final : public Function {
 public:
  const char* name() const override { return "add"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (gradients.needed(i)) gradients.add(i, dy);
  }
};

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  if (a.shape() != b.shape() || a.value().dtype() != b.value().dtype()) return add_broadcast(a, b);
  return Function::record(backend(a.value().device()).add(a.value(), b.value()), {a, b},
                          [] { return std::make_unique<Add>(); });
}

}  // namespace tasuki
