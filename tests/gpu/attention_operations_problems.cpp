#include "tensor/attention_operations.hpp"

#include <cmath>

#include "problems.hpp"
#include "tensor/cuda_settings.hpp"

namespace tasuki::testing {
namespace {

struct AttentionCase {
  std::int64_t items, queries, keys, heads, head_width;
  bool causal;
  std::vector<std::int64_t> lengths = {};
  bool is_large = false;  // scores of about 1000 (of heads of width 1), which are exact
  bool is_deterministic = false;
};

// m + log(sum) of each query, in whatever form a backend keeps it; 0 for padding, where it may be
// undefined.
Tensor logarithms(const Tensor& statistics, const AttentionCase& test) {
  const Tensor kept = statistics.to(Device::cpu());
  const Tensor result =
      Tensor::zeros({test.items, test.heads, test.queries}, DType::float32, Device::cpu());
  const bool are_pairs = kept.shape().rank() == 4;
  const float* from = kept.data<float>();
  float* to = result.data<float>();
  for (std::int64_t item = 0; item < test.items; ++item) {
    const std::int64_t length =
        test.lengths.empty() ? test.keys : test.lengths[static_cast<std::size_t>(item)];
    const std::int64_t queries = test.causal || length == 0 ? length : test.queries;
    for (std::int64_t head = 0; head < test.heads; ++head)
      for (std::int64_t i = 0; i < test.queries; ++i, ++to, from += are_pairs ? 2 : 1)
        if (i < queries) *to = are_pairs ? from[0] + std::log(from[1]) : from[0];
  }
  return result;
}

// All of them columns of wider arrays; in those of 16-bit values whose heads are 8 n wide, 16 bytes
// can be read at once.
Results attention(Side& side, const AttentionCase& test) {
  const std::int64_t width = test.heads * test.head_width;
  const std::int64_t first_begin = test.head_width % 8 == 0 ? 8 : 2;
  const auto draw = [&](const Shape& shape, float high) {
    return test.is_large ? side.coarse_activations(shape, 31, high) : side.activations(shape);
  };
  const Tensor first = draw({test.items, test.queries, width + 4 * first_begin}, 32.0f);
  const Tensor second = draw({test.items, test.keys, 2 * width}, 31.25f);
  const Tensor dy = side.activations({test.items, test.queries, width});
  AttentionOptions options{test.heads, test.head_width,
                           1 / std::sqrt(static_cast<float>(test.head_width)), test.causal};
  if (!test.lengths.empty())
    options.lengths =
        Tensor::from(std::span<const std::int64_t>(test.lengths), {test.items}).to(side.device());
  const HeadColumns q{first, first_begin}, k{second, 0}, v{second, width};
  AttentionOperations& operations = side.backend().attention();
  cuda_settings().deterministic = test.is_deterministic;
  const AttentionResult forward = operations.attention(q, k, v, options);
  const Tensor d_first = side.activations(first.shape()),
               d_second = side.activations(second.shape());
  operations.attention_gradient(q, k, v, forward, dy, options, {d_first, first_begin},
                                {d_second, 0}, {d_second, width});
  cuda_settings().deterministic = false;
  // The sums of q's and k's gradients nearly cancel out if all scores are large.
  if (test.is_large)
    return {{"y", forward.y},
            {"statistics", logarithms(forward.statistics, test)},
            {"dv", side.backend().take(d_second, 2, width, 2 * width)}};
  return {{"y", forward.y},
          {"statistics", logarithms(forward.statistics, test)},
          {"dq", d_first},
          {"dk, dv", d_second}};
}

}  // namespace

void add_attention_operations_problems(Problems& problems) {
  const std::vector<AttentionCase> cases = {
      {2, 5, 5, 2, 4, true},
      {1, 40, 40, 1, 33, true},
      {2, 9, 37, 3, 16, false},
      {1, 4, 3, 1, 100, false},
      {3, 8, 8, 1, 8, true, {8, 3, 0}},
      {3, 4, 35, 2, 8, false, {35, 33, 0}},
      {1, 40, 40, 2, 1, true, {}, true},
      {2, 1, 1, 2, 32, true},
      {1, 1, 70, 2, 64, false},
      {1, 130, 130, 1, 64, true},
      {1, 65, 129, 1, 32, false},
      {2, 70, 70, 1, 128, true, {70, 33}},
      {1, 300, 300, 1, 16, true},
      {2, 64, 64, 2, 64, true},
      {1, 272, 272, 1, 33, true},
      {1, 16, 48, 3, 40, false},
      {2, 32, 32, 2, 8, true, {32, 16}},
      {1, 33, 33, 1, 256, true},
      {2, 9, 40, 2, 200, false, {40, 7}},
      {1, 20, 20, 1, 129, true},
      {3, 130, 130, 2, 64, true, {130, 0, 65}},
      // Several of them: a single score may nearly cancel out.
      {4, 1, 1, 2, 256, false},
      {2, 50, 50, 2, 32, true, {50, 3}, false, true},
      {0, 4, 4, 2, 8, false}};
  for (const AttentionCase& test : cases)
    problems.push_back(
        {fmt::format("attention: {} of {} x {}, {} heads of {}{}{}{}{}", test.items, test.queries,
                     test.keys, test.heads, test.head_width, test.causal ? ", causal" : "",
                     test.lengths.empty() ? "" : ", padded", test.is_large ? ", large scores" : "",
                     test.is_deterministic ? ", deterministic" : ""),
         [=](Side& side) { return attention(side, test); }});
}

}  // namespace tasuki::testing
