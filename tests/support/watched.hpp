// watched(): lets a test act while a backward pass is under way.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "nn/function.hpp"

namespace tasuki {

// A function that returns `x` unchanged, and calls `seen` when its backward pass begins.
inline Variable watched(const Variable& x, const std::function<void()>& seen) {
  class Watched final : public Function {
   public:
    explicit Watched(std::function<void()> seen) : seen_(std::move(seen)) {}
    const char* name() const override { return "watched"; }
    void backward(const Tensor& gradient, Gradients& gradients) override {
      seen_();
      gradients.add(0, gradient);
    }

   private:
    std::function<void()> seen_;
  };
  return Function::record(x.value(), {x}, [&] { return std::make_unique<Watched>(seen); });
}

}  // namespace tasuki
