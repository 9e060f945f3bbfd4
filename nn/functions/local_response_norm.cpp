#include "nn/functions/normalization.hpp"

#include "nn/call_recorder.hpp"
#include "nn/function.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {
namespace {

class LocalResponseNorm final : public Function {
 public:
  LocalResponseNorm(Tensor x, const ResponseNormOptions& options,
                    std::shared_ptr<Workspace> workspace)
      : x_(std::move(x)), options_(options), workspace_(std::move(workspace)) {}
  const char* name() const override { return "local_response_norm"; }
  void describe(CallSettings& settings) const override {
    settings.set("window", options_.window);
    settings.set("k", static_cast<double>(options_.k));
    settings.set("alpha", static_cast<double>(options_.alpha));
    settings.set("beta", static_cast<double>(options_.beta));
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(
        0,
        backend(dy.device()).images().local_response_norm_backward(x_, dy, options_, *workspace_));
  }

 private:
  Tensor x_;
  ResponseNormOptions options_;
  std::shared_ptr<Workspace> workspace_;
};

}  // namespace

Variable local_response_norm(const Variable& x, const ResponseNormOptions& options) {
  std::shared_ptr<Workspace> workspace;
  Tensor y = backend(x.value().device())
                 .images()
                 .local_response_norm(x.value(), options, x.requires_grad() ? &workspace : nullptr);
  return Function::record(std::move(y), {x}, [&] {
    return std::make_unique<LocalResponseNorm>(x.value(), options, std::move(workspace));
  });
}

}  // namespace tasuki::functions
