// The inner loops over interleaved images, of every processor that this one can stand in for,
// against plain loops in double.
#include "tensor/cpu/interleaved_kernels.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "values.hpp"

namespace tasuki {
namespace {

using testing::random_tensor;

TEST(InterleavedKernels, AgreeOnEveryProcessor) {
  const Tensor x = random_tensor({2, 3, 64}, 1), w = random_tensor({400}, 2);
  const InterleavedTap taps[] = {{0, 0}, {16, 60}, {48, 120}};
  const std::int64_t offsets[] = {0, 16, 32, 0, 16};
  const InterleavedKernels& best = interleaved_kernels();
  for (const InterleavedKernels* kernels :
       {&interleaved_kernels_baseline, &interleaved_kernels_avx2, &interleaved_kernels_avx512}) {
    // Tables are ordered by what they need.
    if (kernels->sum_rows > best.sum_rows) continue;
    SCOPED_TRACE(fmt::format("{} rows at once", kernels->sum_rows));
    for (std::int64_t rows = 1; rows <= kernels->sum_rows; ++rows)
      for (std::int64_t blocks = 1; blocks <= kernels->sum_blocks; ++blocks) {
        Tensor y = Tensor::zeros({blocks, rows, 16});
        kernels->sum({x.data<float>(), 192, 64, 3, taps, 3, w.data<float>(), 20,
                      w.data<float>() + 300, y.data<float>(), rows * 16, 16},
                     rows, blocks);
        for (std::int64_t i = 0; i < y.count(); ++i) {
          const std::int64_t block = i / 16 / rows, row = i / 16 % rows;
          double expected = static_cast<double>(w.data<float>()[300 + row]);
          for (const InterleavedTap tap : taps)
            for (std::int64_t c = 0; c < 3; ++c)
              expected += static_cast<double>(w.data<float>()[tap.weights + c * 20 + row]) *
                          x.data<float>()[block * 192 + c * 64 + tap.line + i % 16];
          ASSERT_NEAR(y.data<float>()[i], expected, 1e-5) << "row " << row << " of " << rows;
        }
      }
    // Half a block has the bits of a whole one.
    for (std::int64_t rows = 1; rows <= kernels->sum_rows; ++rows) {
      const Tensor whole = Tensor::full({rows, 16}, 5), half = Tensor::full({rows, 16}, 5);
      for (const Tensor& y : {whole, half}) {
        const InterleavedSum sum{
            x.data<float>(), 192,       64, 3, taps, 3, w.data<float>(), 20, w.data<float>() + 300,
            y.data<float>(), rows * 16, 16};
        if (y.raw() == half.raw())
          kernels->half_sum(sum, rows);
        else
          kernels->sum(sum, rows, 1);
      }
      for (std::int64_t i = 0; i < whole.count(); ++i)
        ASSERT_EQ(half.data<float>()[i], i % 16 < 8 ? whole.data<float>()[i] : 0) << i;
    }
    for (std::int64_t rows = 1; rows <= kernels->gradient_rows; ++rows)
      for (std::int64_t count = 1; count <= kernels->gradient_taps; ++count) {
        const Tensor whole = Tensor::full({rows, count, 16}, 1), half = whole.clone();
        for (const Tensor& sums : {whole, half}) {
          const InterleavedGradient gradient{x.data<float>(),    64,        16, offsets,
                                             w.data<float>(),    64,        2,  2,
                                             sums.data<float>(), count * 16};
          (sums.raw() == half.raw() ? kernels->half_gradient : kernels->gradient)(gradient, rows,
                                                                                  count);
        }
        for (std::int64_t i = 0; i < whole.count(); ++i)
          ASSERT_EQ(half.data<float>()[i], i % 16 < 8 ? whole.data<float>()[i] : 1) << i;
      }
    for (std::int64_t rows = 1; rows <= kernels->gradient_rows; ++rows)
      for (std::int64_t count = 1; count <= kernels->gradient_taps; ++count) {
        const Tensor sums = Tensor::full({rows, count, 16}, 1);
        kernels->gradient({x.data<float>(), 64, 16, offsets, w.data<float>(), 64, 2, 2,
                           sums.data<float>(), count * 16},
                          rows, count);
        for (std::int64_t i = 0; i < sums.count(); ++i) {
          const std::int64_t row = i / 16 / count, tap = i / 16 % count;
          double expected = 1;
          for (const std::int64_t down : {0, 1})
            for (const std::int64_t right : {0, 1})
              expected += static_cast<double>(
                              w.data<float>()[row * 64 + (down * 2 + right) * 16 + i % 16]) *
                          x.data<float>()[down * 64 + right * 16 + offsets[tap] + i % 16];
          ASSERT_NEAR(sums.data<float>()[i], expected, 1e-5) << "row " << row << " of " << rows;
        }
      }
  }
}

}  // namespace
}  // namespace tasuki
