// conv2d and deconv2d with random shapes, settings and orders of their operands, by every
// algorithm and in bfloat16, against the definition in double.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/philox.hpp"
#include "nn/functions/connection.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tests/support/convolution_definition.hpp"
#include "tests/support/orders.hpp"
#include "tests/support/weighted_sum.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using Problem = testing::ConvolutionProblem;
using testing::every_order;
using testing::in_order;
using testing::random_tensor;
using testing::result_of;
using testing::visit_products;

using Numbers = std::vector<double>;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : stream_(seed) {}
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[stream_.below(static_cast<std::uint32_t>(choices.size()))];
  }
  const testing::Order& order() {
    return every_order[stream_.below(static_cast<std::uint32_t>(every_order.size()))];
  }

  // Images that are small beside their filters, too, which then meet padding alone in places.
  Problem problem() {
    using Sizes = std::initializer_list<std::int64_t>;
    for (;;) {
      const std::int64_t groups = of<std::int64_t>({1, 1, 1, 2, 4});
      const Sizes channels = {1, 2, 3, 4, 8, 16, 20}, sizes = {1, 1, 2, 3, 4, 6, 9};
      const Problem p = {
          {of<std::int64_t>({1, 2, 5, 17}), groups * of(channels), of(sizes), of(sizes)},
          {groups * of(channels), 0, of<std::int64_t>({1, 2, 3, 3, 5, 7}),
           of<std::int64_t>({1, 2, 3, 3, 5, 7})},
          {of<std::int64_t>({1, 1, 2, 3, 4}), of<std::int64_t>({1, 1, 2, 3, 4}),
           of<std::int64_t>({0, 0, 1, 2, 3}), of<std::int64_t>({0, 0, 1, 2, 3}),
           of<std::int64_t>({1, 1, 1, 2, 3}), of<std::int64_t>({1, 1, 1, 2, 3}), groups}};
      const auto fits = [&](int axis, std::int64_t pad, std::int64_t dilation) {
        return p.x[axis] + 2 * pad > dilation * (p.w[axis] - 1);
      };
      if (!fits(2, p.o.pad_h, p.o.dilation_h) || !fits(3, p.o.pad_w, p.o.dilation_w)) continue;
      Problem whole = p;
      whole.w[1] = p.x[1] / groups;
      return whole;
    }
  }

 private:
  RandomStream stream_;
};

// Whose products bfloat16 does not round, so that all algorithms have the same result.
Tensor values(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, seed).to(DType::bfloat16).to(DType::float32);
}

// In this order, or plain in 16 bits that the processor does not multiply.
Tensor placed(const Tensor& values, const testing::Order& order, DType type) {
  return is_native(type) ? in_order(values.to(type), order) : values.to(type);
}

// Relative to the largest number.
void expect_near(const char* what, const Tensor& found, const Numbers& expected, double tolerance) {
  const Tensor plain = found.to(DType::float32).plain();
  ASSERT_EQ(plain.count(), std::ssize(expected));
  double largest = 1e-3;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(static_cast<double>(plain.span<float>()[i]), expected[i], tolerance * largest)
        << what << ", element " << i;
}

Numbers zeros(const Shape& shape) {
  return Numbers(static_cast<std::size_t>(shape.count()));
}

// Sums of images over all but the channels.
Numbers channel_sums(const Tensor& images) {
  const Shape& shape = images.shape();
  Numbers sums(static_cast<std::size_t>(shape[1]));
  const std::int64_t pixels = shape[2] * shape[3];
  for (std::int64_t i = 0; i < images.count(); ++i)
    sums[static_cast<std::size_t>(i / pixels % shape[1])] +=
        static_cast<double>(images.data<float>()[i]);
  return sums;
}

void add_bias(Numbers& images, const Shape& shape, const Tensor& b) {
  const std::int64_t pixels = shape[2] * shape[3];
  for (std::size_t i = 0; i < images.size(); ++i)
    images[i] +=
        static_cast<double>(b.data<float>()[static_cast<std::int64_t>(i) / pixels % shape[1]]);
}

struct Way {
  const char* name;
  ConvAlgorithm algorithm;
  DType type;
  double of_activations, of_parameters;  // allowed differences
};
constexpr Way ways[] = {
    {"direct", ConvAlgorithm::direct, DType::float32, 1e-5, 1e-5},
    {"winograd", ConvAlgorithm::winograd, DType::float32, 1e-4, 1e-4},
    {"interleaved", ConvAlgorithm::interleaved, DType::float32, 1e-5, 1e-5},
    {"fastest", ConvAlgorithm::fastest, DType::float32, 1e-5, 1e-5},
    // Results are rounded, twice where a bias or a second gradient is added.
    {"bfloat16", ConvAlgorithm::direct, DType::bfloat16, 0x1p-7, 1e-5},
    // So are transformed tiles and filters.
    {"winograd_bfloat16", ConvAlgorithm::winograd, DType::bfloat16, 0x1p-6, 0x1p-6}};

// A convolution, or with its input and its result exchanged a deconvolution; the gradients of two
// passes add up.
void check(const Problem& p, bool is_deconvolution, const Way& way, Draw& draw) {
  SCOPED_TRACE((is_deconvolution ? "deconv2d, of " : "conv2d, ") + p.text());
  const Shape image = p.x, result = result_of(p);
  const Shape in = is_deconvolution ? result : image, out = is_deconvolution ? image : result;
  const Tensor x = values(in, 1), w = values(p.w, 2), b = values({out[1]}, 3), dy = values(out, 4);

  Numbers y = zeros(out), dx = zeros(in), dw = zeros(p.w), db = channel_sums(dy);
  visit_products(p, [&](std::int64_t result_at, std::int64_t image_at, std::int64_t at) {
    const std::int64_t from = is_deconvolution ? result_at : image_at,
                       to = is_deconvolution ? image_at : result_at;
    const auto xv = static_cast<double>(x.data<float>()[from]);
    const auto wv = static_cast<double>(w.data<float>()[at]);
    const auto gv = static_cast<double>(dy.data<float>()[to]);
    y[static_cast<std::size_t>(to)] += xv * wv;
    dx[static_cast<std::size_t>(from)] += gv * wv;
    dw[static_cast<std::size_t>(at)] += gv * xv;
  });
  add_bias(y, out, b);

  const testing::Order &x_order = draw.order(), &w_order = draw.order(), &dy_order = draw.order();
  SCOPED_TRACE(fmt::format("x {}, w {}, dy {}", x_order.name, w_order.name, dy_order.name));
  const Variable input(placed(x, x_order, way.type), true), weights(in_order(w, w_order), true),
      bias(b, true);
  for (const int passes : {1, 2}) {
    const Variable found =
        is_deconvolution ? F::deconv2d(input, weights, bias, p.o, std::pair{image[2], image[3]})
                         : F::conv2d(input, weights, bias, p.o);
    expect_near("y", found.value(), y, way.of_activations);
    testing::weighted_sum({found}, {placed(dy, dy_order, way.type)}).backward();
    if (passes == 2)
      for (Numbers* const gradient : {&dx, &dw, &db})
        for (double& value : *gradient) value *= 2;
    expect_near("dx", input.grad(), dx, way.of_activations);
    expect_near("dw", weights.grad(), dw, way.of_parameters);
    expect_near("db", bias.grad(), db, way.of_parameters);
  }
}

class ConvolutionFunctions : public ::testing::TestWithParam<Way> {
 protected:
  ConvolutionFunctions() {
    set_cpu_threads(1);
    set_conv_algorithm(GetParam().algorithm);
  }
  ~ConvolutionFunctions() override { set_conv_algorithm(ConvAlgorithm::fastest); }

  void check_both(const Problem& p) {
    for (const bool is_deconvolution : {false, true}) {
      check(p, is_deconvolution, GetParam(), draw_);
      if (HasFailure()) return;
    }
  }

  Draw draw_{25};
};

TEST_P(ConvolutionFunctions, MatchTheirDefinition) {
  for (int i = 0; i < 150 && !HasFailure(); ++i) check_both(draw_.problem());
}

// Whose tiles reach over the images' ends, fill several blocks, and are few.
TEST_P(ConvolutionFunctions, MatchTheirDefinitionForBlocksOfChannels) {
  for (const std::int64_t pad : {0, 1, 2})
    for (const std::int64_t size : {3, 4, 9})
      check_both({{3, 32, size, size + 1}, {16, 32, 3, 3}, {1, 1, pad, 2 - pad, 1, 1, 1}});
  check_both({{48, 16, 9, 9}, {16, 16, 3, 3}, {1, 1, 1, 1, 1, 1, 1}});  // tiles in several turns
}

// Weights that meet nothing but padding have no gradient.
TEST_P(ConvolutionFunctions, MatchTheirDefinitionForImagesSmallerThanStrides) {
  check_both({{5, 8, 1, 1}, {8, 8, 3, 3}, {3, 3, 1, 1, 1, 1, 1}});
  check_both({{1, 8, 1, 1}, {8, 8, 7, 7}, {2, 2, 3, 3, 1, 1, 1}});
  check_both({{1, 32, 4, 1}, {32, 8, 3, 3}, {1, 3, 1, 1, 1, 1, 4}});
  check_both({{16, 16, 2, 2}, {32, 16, 3, 3}, {4, 4, 1, 1, 1, 1, 1}});
}

// Some kernels read beyond the end of such images.
TEST_P(ConvolutionFunctions, MatchTheirDefinitionForNarrowImages) {
  check_both({{1, 1, 9, 1}, {16, 1, 1, 1}, {4, 4, 0, 0, 1, 1, 1}});
  check_both({{5, 3, 1, 1}, {16, 3, 1, 1}, {4, 4, 0, 0, 1, 1, 1}});
  check_both({{2, 2, 9, 3}, {16, 2, 1, 1}, {4, 4, 0, 0, 1, 1, 1}});
  check_both({{1, 3, 7, 3}, {32, 3, 3, 3}, {4, 4, 0, 0, 1, 1, 1}});
}

TEST_P(ConvolutionFunctions, MatchTheirDefinitionForSmallGroups) {
  for (const std::int64_t groups : {2, 4, 8, 16})
    for (const std::int64_t of_group : {1, 2, 4, 8}) {
      const std::int64_t channels = groups * of_group;
      check_both({{1, channels, 2, 2}, {channels, of_group, 1, 1}, {1, 1, 0, 0, 1, 1, groups}});
      check_both({{3, channels, 5, 4}, {channels, of_group, 3, 3}, {1, 1, 1, 1, 1, 1, groups}});
    }
}

std::string name_of_row(const ::testing::TestParamInfo<Way>& row) {
  return row.param.name;
}
INSTANTIATE_TEST_SUITE_P(, ConvolutionFunctions, ::testing::ValuesIn(ways), name_of_row);

}  // namespace
}  // namespace tasuki
