#include "tensor/cuda/gelu_trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/activity.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/cublaslt.hpp"
#include "tensor/cuda/image_passes.hpp"

namespace tasuki {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                infinity = std::numeric_limits<float>::infinity();

// Exact in every type.
std::vector<float> make_biases() {
  std::vector<float> biases = {-0x1p15F, 0x1p15F, -infinity, infinity, nan};
  for (int sixteenths = -6 * 16; sixteenths <= 6 * 16; ++sixteenths)
    biases.push_back(static_cast<float>(sixteenths) / 16);
  return biases;
}

float gelu_of(Map form, float value) {
  const auto x = static_cast<double>(value);
  const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
  const double share =
      form == Map::gelu ? std::erfc(-x * std::numbers::sqrt2 / 2) / 2 : (1 + std::tanh(inner)) / 2;
  return share == 0 ? 0 : static_cast<float>(share * x);
}

// 1e-5 is little beside the difference of both forms, which is up to 5e-4.
kernels::Tolerance tolerance_of(DType type) {
  return {1e-5F, type == DType::bfloat16 ? 0x1p-8F : type == DType::float16 ? 0x1p-11F : 1e-6F};
}

// Rows x columns as images of a pixel.
Tensor empty_images(std::int64_t rows, std::int64_t columns, DType type, Device device) {
  return cuda_empty({rows, columns, 1, 1}, type, device, channels_last());
}

}  // namespace

GeluTrial::GeluTrial(CudaContext& context, const MatrixProduct& product, bool tf32)
    : context_(context),
      tf32_(tf32),
      a_(Tensor::zeros({product.m * product.k}, product.operands, context.device())),
      b_(Tensor::zeros({product.k * product.n}, product.operands, context.device())),
      y_(empty_images(product.m, product.n, product.result, context.device())),
      before_(empty_images(product.m, product.n, product.result, context.device())),
      product_(product) {
  product_.a = a_.raw();
  product_.b = b_.raw();
  product_.c = y_.raw();
  product_.before = before_.raw();
}

std::string GeluTrial::objection_to(const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace) {
  static const std::vector<float> biases = make_biases();
  const std::int64_t columns = product_.n, all = static_cast<std::int64_t>(biases.size());
  const DType type = product_.result;
  const std::shared_ptr<Storage> room = context_.allocate(workspace);
  // Each column has one of the biases, and each bias its turn.
  for (std::int64_t first = 0; first < all; first += columns) {
    report_progress();
    const Tensor bias = Tensor::empty({columns}), gelu = Tensor::empty({columns}),
                 gelu_or_nan = Tensor::empty({columns});
    for (std::int64_t j = 0; j < columns; ++j) {
      const float value = biases[static_cast<std::size_t>((first + j) % all)];
      bias.data<float>()[j] = value;
      gelu.data<float>()[j] = gelu_of(product_.gelu, value);
      gelu_or_nan.data<float>()[j] = value == -infinity ? nan : gelu.data<float>()[j];
    }
    const Tensor added = bias.to(type).to(context_.device());
    product_.bias = added.raw();
    product_.bias_type = type;
    y_.fill(nan);
    before_.fill(nan);
    MatmulDescription description(product_, tf32_, /*fuse=*/true);
    if (const cublasStatus_t answer =
            run_matmul(context_.matmul().cublaslt.get(), description, product_, algorithm,
                       room->data(), workspace, context_.stream());
        answer != CUBLAS_STATUS_SUCCESS) {
      clear_error("cublasLtMatmul");
      return cublasLtGetStatusName(answer);
    }
    const auto wrong_in = [&](const Tensor& y, const Tensor& expected) {
      return count_differing(y, expected.to(context_.device()), tolerance_of(type));
    };
    if (const std::int64_t wrong = std::min(wrong_in(y_, gelu), wrong_in(y_, gelu_or_nan));
        wrong > 0)
      return fmt::format("{} of {} values are not GELU", wrong, y_.count());
    if (const std::int64_t wrong = count_differing(before_, added.to(DType::float32)); wrong > 0)
      return fmt::format("{} of {} values before GELU are wrong", wrong, y_.count());
  }
  return {};
}

}  // namespace tasuki
