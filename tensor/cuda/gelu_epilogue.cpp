#include "tensor/cuda/gelu_epilogue.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/log.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cublaslt.hpp"
#include "tensor/cuda_settings.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {
namespace {

constexpr std::array<Map, 2> forms = {Map::gelu, Map::gelu_tanh};

double gelu_of(Map form, double x) {
  const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
  const double share =
      form == Map::gelu ? std::erfc(-x * std::numbers::sqrt2 / 2) / 2 : (1 + std::tanh(inner)) / 2;
  return share == 0 ? 0 : share * x;
}

// As rounded to the type. 1e-5 is little beside the difference of both forms, which is up to 5e-4.
bool is_near(double found, double expected, DType type) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  const double step = type == DType::bfloat16 ? 0x1p-8 : type == DType::float16 ? 0x1p-11 : 1e-6;
  return std::abs(found - expected) <= 1e-5 + step * std::abs(expected);
}

// The product: a sum of the row's number and a bias in each place, exact in every type.
class Question {
 public:
  Question(CudaContext& context, DType type, bool tf32) : context_(context), type_(type) {
    constexpr std::int64_t zero = 6 * 16, last = 2 * zero;  // from -6 to 6
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr std::array<float, 5> others = {-0x1p15F, 0x1p15F, -infinity, infinity,
                                             std::numeric_limits<float>::quiet_NaN()};
    constexpr auto rows = static_cast<std::int64_t>(last + 1 + others.size());
    const Tensor x = Tensor::zeros({rows, columns}), w = Tensor::zeros({columns, columns});
    const Tensor b = Tensor::empty({columns});
    for (std::int64_t i = 0; i < rows; ++i)
      x.data<float>()[i * columns] = i <= last ? static_cast<float>(i - zero) / 16
                                               : others[static_cast<std::size_t>(i - last - 1)];
    for (std::int64_t j = 0; j < columns; ++j) {
      w.data<float>()[j * columns] = 1;
      b.data<float>()[j] = static_cast<float>(j) / 16;
    }
    sums_ = Tensor::empty({rows, columns});
    for (std::int64_t i = 0; i < sums_.count(); ++i)
      sums_.data<float>()[i] =
          x.data<float>()[i / columns * columns] + b.data<float>()[i % columns];
    x_ = on_device(x);
    w_ = on_device(w);
    b_ = on_device(b);
    y_ = Tensor::empty({rows, columns}, type, context.device());
    before_ = Tensor::empty({rows, columns}, type, context.device());
    product_ = {.transpose_b = true,
                .m = rows,
                .n = columns,
                .k = columns,
                .operands = type,
                .result = type,
                .a = x_.raw(),
                .b = w_.raw(),
                .c = y_.raw(),
                .bias = b_.raw(),
                .bias_type = type,
                .before = before_.raw()};
    tf32_ = tf32;
  }

  // The form that all of cuBLASLt's algorithms compute that run.
  std::optional<Map> answer() const {
    std::array<bool, forms.size()> fits{};
    bool is_first = true;
    for (const MatmulAlgorithms::Choice& choice :
         choose_matmul(context_, product_, MatmulKey(product_, tf32_, /*timed=*/false))) {
      if (!choice.is_fused || !runs(choice)) continue;
      for (std::size_t i = 0; i < forms.size(); ++i)
        fits[i] = (is_first || fits[i]) && computes(forms[i]);
      is_first = false;
    }
    for (std::size_t i = 0; i < forms.size(); ++i)
      if (fits[i]) return forms[i];
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t columns = 8;

  Tensor on_device(const Tensor& values) const { return values.to(type_).to(context_.device()); }

  bool runs(const MatmulAlgorithms::Choice& choice) const {
    MatmulDescription description(product_, tf32_, /*fuse=*/true);
    const std::shared_ptr<Storage> workspace = context_.allocate(choice.workspace);
    const cublasStatus_t status =
        run_matmul(context_.matmul().cublaslt.get(), description, product_, choice.algorithm,
                   workspace->data(), choice.workspace, context_.stream());
    if (status != CUBLAS_STATUS_SUCCESS) cudaGetLastError();  // clears the error
    return status == CUBLAS_STATUS_SUCCESS;
  }

  bool computes(Map form) const {
    const Tensor y = y_.to(Device::cpu()).to(DType::float32);
    const Tensor before = before_.to(Device::cpu()).to(DType::float32);
    for (std::int64_t i = 0; i < sums_.count(); ++i) {
      const auto sum = static_cast<double>(sums_.data<float>()[i]);
      if (!is_near(static_cast<double>(before.data<float>()[i]), sum, type_) ||
          !is_near(static_cast<double>(y.data<float>()[i]), gelu_of(form, sum), type_))
        return false;
    }
    return true;
  }

  CudaContext& context_;
  DType type_;
  bool tf32_ = false;
  Tensor x_, w_, b_, y_, before_, sums_;
  MatrixProduct product_;
};

}  // namespace

std::optional<Map> GeluEpilogues::form(CudaContext& context, DType type, bool tf32) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find({type, tf32});
  if (known != known_.end()) return known->second;
  // The answer is read on the host, which cannot be recorded.
  if (is_recorded(context.stream())) return std::nullopt;
  const std::optional<Map> found = Question(context, type, tf32).answer();
  log_verbose("GELU in the end of cuBLASLt's products of {}{}: {}", name_of(type),
              tf32 ? " as TF32" : "",
              !found                ? "not one that can be used"
              : *found == Map::gelu ? "by erf"
                                    : "by tanh");
  known_.emplace(std::pair(type, tf32), found);
  return found;
}

bool has_gelu_epilogue(CudaContext& context, const MatrixProduct& product) {
  const bool tf32 = cuda_settings().allow_tf32 && product.operands == DType::float32;
  return product.bias != nullptr && product.n % 8 == 0 && product.operands == product.result &&
         context.matmul().gelu.form(context, product.operands, tf32) == product.gelu;
}

}  // namespace tasuki
