// Local response normalisation, as reference_check.hpp says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nn/functions/normalization.hpp"
#include "reference_check.hpp"
#include "tensor/cpu/dnnl_support.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(ResponseNormReference, LocalResponseNorm) {
  check_file("response_norms", [](const Inputs& in, const ReferenceCase& test) {
    const auto& o = test.options;
    return F::local_response_norm(in.at("x"), {o["n"], o["k"], o["alpha"], o["beta"]});
  });
}

// y = x s^-beta with s = k + alpha * (sum of squares of the window), in double.
struct Expected {
  std::vector<double> y, dx;
};
Expected by_definition(const Tensor& x, const Tensor& dy, const ResponseNormOptions& o) {
  const Shape& shape = x.shape();
  const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
  const auto size = static_cast<std::size_t>(x.count());
  std::vector<double> sums(size);
  Expected expected{std::vector<double>(size), std::vector<double>(size)};
  // Calls visit(element, element in its window).
  const auto for_windows = [&](const auto& visit) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::int64_t channel = i / pixels % channels;
      for (std::int64_t c = std::max<std::int64_t>(0, channel - o.window / 2);
           c <= std::min(channels - 1, channel + o.window / 2); ++c)
        visit(static_cast<std::size_t>(i), static_cast<std::size_t>(i + (c - channel) * pixels));
    }
  };
  const auto at = [](const Tensor& t, std::size_t i) { return double{t.span<float>()[i]}; };
  for_windows([&](std::size_t i, std::size_t j) { sums[i] += at(x, j) * at(x, j); });
  for (double& sum : sums) sum = double{o.k} + double{o.alpha} * sum;
  for (std::size_t i = 0; i < size; ++i) {
    expected.y[i] = at(x, i) * std::pow(sums[i], -double{o.beta});
    expected.dx[i] = at(dy, i) * std::pow(sums[i], -double{o.beta});
  }
  for_windows([&](std::size_t i, std::size_t j) {
    expected.dx[i] -= 2 * double{o.alpha} * double{o.beta} * at(x, i) * at(dy, j) * at(x, j) *
                      std::pow(sums[j], -double{o.beta} - 1);
  });
  return expected;
}

// A sum that is carried from channel to channel would keep the rounding of the large one.
TEST(ResponseNorm, KeepsPrecisionOfSmallValuesAfterALargeOne) {
  using Tag = dnnl::memory::format_tag;
  for (const Shape& shape : {Shape{1, 16, 1, 1}, Shape{2, 16, 3, 5}, Shape{2, 24, 7, 3},
                             Shape{1, 32, 9, 9}, Shape{2, 20, 3, 3}, Shape{1, 96, 2, 2}})
    for (const ResponseNormOptions& options :
         {ResponseNormOptions{5, 1e-3f, 1, 0.75f}, ResponseNormOptions{5, 1, 1, 0.75f},
          ResponseNormOptions{3, 2, 0.5f, 0.5f}, ResponseNormOptions{7, 1, 1, 0.75f}}) {
      const Tensor x = Tensor::full(shape, 0.1), dy = testing::random_tensor(shape, 3);
      const std::int64_t pixels = shape[2] * shape[3];
      for (std::int64_t n = 0; n < shape[0]; ++n)
        x.reshape({shape[0], shape[1], pixels}).span<float>()[(n * shape[1] + 1) * pixels] = 1000;
      const auto [y, dx] = by_definition(x, dy, options);
      const dnnl::memory::dims dims(shape.begin(), shape.end());
      for (const Tag order : {Tag::nchw, Tag::nChw8c, Tag::nChw16c, Tag::nhwc}) {
        SCOPED_TRACE(fmt::format("{}, window {}, k {}, order {}", shape.text(), options.window,
                                 options.k, static_cast<int>(order)));
        const Variable in(
            order == Tag::nchw ? x : reordered(x, {dims, dnnl::memory::data_type::f32, order}),
            true);
        const Variable out = F::local_response_norm(in, options);
        testing::weighted_sum(out, dy).backward();
        const Tensor found = out.value().plain(), slopes = in.grad().plain();
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(found.span<float>()[i], y[i], 2e-6 * std::abs(y[i])) << i;
          ASSERT_NEAR(slopes.span<float>()[i], dx[i], 1e-5 * (std::abs(dx[i]) + 1)) << i;
        }
      }
    }
}

}  // namespace
}  // namespace tasuki
