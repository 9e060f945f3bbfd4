#include "cudnn_convolution.hpp"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cudnn_handle.hpp"
#include "queue.hpp"

namespace tasuki::simulated {
namespace {

std::size_t count(const cudnnTensorStruct& t) {
  return static_cast<std::size_t>(t.size[0] * t.size[1] * t.size[2] * t.size[3]);
}

std::vector<float> floats(const cudnnTensorStruct& t, const void* values, bool is_tf32) {
  std::vector<float> result(count(t));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float value = load(t.type, values, i);
    result[i] = is_tf32 ? to_tf32(value) : value;
  }
  return result;
}

float relu(float x, bool keeps_nan) {
  return x > 0 || (keeps_nan && std::isnan(x)) ? x : 0.0F;
}

// values = alpha * sums + beta * values, or as the epilogue says.
void blend(const cudnnTensorStruct& t, void* values, const std::vector<double>& sums, float alpha,
           float beta, const std::optional<Epilogue>& epilogue) {
  const void* const added = epilogue ? epilogue->z : values;
  const auto channels = static_cast<std::size_t>(t.size[1]);
  const auto step = static_cast<std::size_t>(t.step[1]);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value = alpha * static_cast<float>(sums[i]);
    if (beta != 0 || (epilogue && epilogue->reads_z)) value += beta * load(t.type, added, i);
    if (epilogue) {
      value += load(t.type, epilogue->bias, i / step % channels);
      if (epilogue->relu) value = relu(value, epilogue->keeps_nan);
    }
    store(t.type, values, i, value);
  }
}

// What an algorithm leaves that fails in between.
void spoil(const cudnnTensorStruct& t, void* values, cudaStream_t stream) {
  enqueue(stream, [=] {
    const Access access;
    for (std::size_t i = 0; i < count(t); ++i) store(t.type, values, i, 1e6F);
  });
}

}  // namespace

cudnnStatus_t convolve(cudnnHandle_t handle, const Problem& problem, Result result, int algorithm,
                       const void* alpha, const void* beta, void* x, void* w, void* y,
                       std::size_t workspace_bytes, const Epilogue* epilogue) {
  if (!problem.fits()) return CUDNN_STATUS_BAD_PARAM;
  if (workspace_bytes < wanted_workspace(algorithm)) return CUDNN_STATUS_BAD_PARAM;
  ConvolutionKind kind = problem.kind();
  kind.is_fused = epilogue != nullptr;
  const cudnnStatus_t refused = refusal(Moment::run, algorithm, kind, handle->stream);
  if (refused >= CUDNN_STATUS_INTERNAL_ERROR) {
    const auto& [tensor, values] = result == Result::x   ? std::pair(problem.x, x)
                                   : result == Result::w ? std::pair(problem.w, w)
                                                         : std::pair(problem.y, y);
    spoil(tensor, values, handle->stream);
    fail_at_execution(handle->stream);
  }
  if (refused != CUDNN_STATUS_SUCCESS) return refused;
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  const std::optional<Epilogue> last = epilogue ? std::optional(*epilogue) : std::nullopt;
  enqueue(handle->stream, [=] {
    const Access access;
    const cudnnTensorStruct& target = result == Result::x   ? problem.x
                                      : result == Result::w ? problem.w
                                                            : problem.y;
    std::vector<double> sums(count(target));
    const auto operand = [&](Result which, const cudnnTensorStruct& tensor, const void* values) {
      return result == which ? std::vector<float>() : floats(tensor, values, problem.is_tf32());
    };
    const auto in_x = operand(Result::x, problem.x, x);
    const auto in_w = operand(Result::w, problem.w, w);
    const auto in_y = operand(Result::y, problem.y, y);
    problem.for_products([&](std::size_t wi, std::size_t xi, std::size_t yi, std::size_t terms,
                             std::size_t x_step, std::size_t y_step) {
      const auto weight = result == Result::w ? 0.0 : static_cast<double>(in_w[wi]);
      double sum = 0;
      for (std::size_t i = 0; i < terms; ++i, xi += x_step, yi += y_step) {
        if (result == Result::x)
          sums[xi] += weight * static_cast<double>(in_y[yi]);
        else if (result == Result::y)
          sums[yi] += weight * static_cast<double>(in_x[xi]);
        else
          sum += static_cast<double>(in_x[xi]) * static_cast<double>(in_y[yi]);
      }
      if (result == Result::w) sums[wi] += sum;
    });
    blend(target, result == Result::x ? x : result == Result::w ? w : y, sums, a, b, last);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace tasuki::simulated
