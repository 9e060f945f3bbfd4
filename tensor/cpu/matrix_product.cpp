#include "tensor/cpu/matrix_product.hpp"

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

dnnl_status_t try_multiply(const Product& p) {
  const std::int64_t lda = p.transpose_a == 'N' ? p.k : p.m;
  const std::int64_t ldb = p.transpose_b == 'N' ? p.n : p.k;
  return dnnl_sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, 1.0f, p.a, lda, p.b, ldb, p.beta,
                    p.c, p.n);
}

void check(dnnl_status_t status, const Product& p) {
  check_dnnl(status, [&] { return fmt::format("a matrix product {}x{}x{}", p.m, p.n, p.k); });
}

}  // namespace

void multiply(const Product& p) {
  protect_team();
  check(try_multiply(p), p);
}

void multiply_batch(const Product& first, std::int64_t batch, std::int64_t step_a,
                    std::int64_t step_b, std::int64_t step_c) {
  const auto at = [&](std::int64_t i) {
    Product p = first;
    p.a += i * step_a, p.b += i * step_b, p.c += i * step_c;
    if (step_c == 0 && i > 0) p.beta = 1;
    return p;
  };
  if (step_c == 0 || batch < 2 * cpu_threads()) {
    for (std::int64_t i = 0; i < batch; ++i) multiply(at(i));
    return;
  }
  protect_team();
  // Below so many multiplications, waking another thread does not pay.
  constexpr std::int64_t worth_a_thread = 1 << 18;
  const std::int64_t grain = worth_a_thread / (first.m * first.n * first.k) + 1;
  parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) check(try_multiply(at(i)), first);
  });
}

}  // namespace tasuki
