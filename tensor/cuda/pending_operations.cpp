// What is still to come: each says so.
#include "tasuki/core/error.hpp"
#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

[[noreturn]] void fail_not_there(const char* what) {
  fail(ErrorKind::unavailable, "the CUDA backend has no {} yet; leave --gpu out", what);
}

}  // namespace

Tensor CudaBackend::unary(Unary, const Tensor&, float) {
  fail_not_there("unary");
}

Tensor CudaBackend::unary_backward(Unary, const Tensor&, const Tensor&, float) {
  fail_not_there("unary_backward");
}

Tensor CudaBackend::add(const Tensor&, const Tensor&) {
  fail_not_there("add");
}

void CudaBackend::accumulate(const Tensor&, const Tensor&, float) {
  fail_not_there("accumulate");
}

void CudaBackend::scale(const Tensor&, float) {
  fail_not_there("scale");
}

Tensor CudaBackend::dropout(const Tensor&, float, std::uint64_t, std::span<const std::int64_t>) {
  fail_not_there("dropout");
}

Tensor CudaBackend::concat(std::span<const Tensor>, int) {
  fail_not_there("concat");
}

Tensor CudaBackend::take(const Tensor&, int, std::int64_t, std::int64_t) {
  fail_not_there("take");
}

Tensor CudaBackend::linear(const Tensor&, const Tensor&, const Tensor&) {
  fail_not_there("linear");
}

Tensor CudaBackend::linear_backward_data(const Tensor&, const Tensor&) {
  fail_not_there("linear_backward_data");
}

void CudaBackend::linear_backward_weights(const Tensor&, const Tensor&, const Tensor&, bool) {
  fail_not_there("linear_backward_weights");
}

void CudaBackend::backward_bias(const Tensor&, const Tensor&, bool) {
  fail_not_there("backward_bias");
}

CrossEntropyResult CudaBackend::softmax_cross_entropy(const Tensor&, const Tensor&) {
  fail_not_there("softmax_cross_entropy");
}

Tensor CudaBackend::softmax_cross_entropy_backward(const CrossEntropyResult&, const Tensor&,
                                                   float) {
  fail_not_there("softmax_cross_entropy_backward");
}

std::int64_t CudaBackend::count_correct(const Tensor&, const Tensor&) {
  fail_not_there("count_correct");
}

void CudaBackend::update(const UpdateStep&) {
  fail_not_there("update");
}

double CudaBackend::squared_norm(const Tensor&) {
  fail_not_there("squared_norm");
}

}  // namespace tasuki
