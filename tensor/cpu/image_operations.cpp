#include "tasuki/tensor/image_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/response_norm.hpp"

namespace tasuki {
namespace {

class CpuImageOperations final : public ImageOperations {
 public:
  Tensor local_response_norm(const Tensor& x, const ResponseNormOptions& options,
                             std::shared_ptr<Workspace>* workspace) override {
    return cpu_response_norm(x, options, workspace);
  }
  Tensor local_response_norm_backward(const Tensor& x, const Tensor& dy,
                                      const ResponseNormOptions& options,
                                      const Workspace& workspace) override {
    return cpu_response_norm_backward(x, dy, options, workspace);
  }
};

}  // namespace

ImageOperations& CpuBackend::images() {
  static CpuImageOperations operations;
  return operations;
}

}  // namespace tasuki
