#include "problems.hpp"
#include "tensor/normalization_operations.hpp"

namespace tasuki::testing {
namespace {

Results softmax(Side& side, const Shape& shape, int axis, bool logarithm) {
  const Tensor x = side.activations(shape, -3, 3), dy = side.activations(shape);
  NormalizationOperations& operations = side.backend().normalization();
  // From the same result on both sides.
  const Tensor y = side.activations(shape, logarithm ? -3.0f : 0.0f, logarithm ? -1.0f : 0.5f);
  return {{"y", operations.softmax(x, axis, logarithm)},
          {"dx", operations.softmax_gradient(y, dy, axis, logarithm)}};
}

Results normalize(Side& side, const NormRows& rows, bool accumulate, bool residual) {
  const Shape shape = {rows.items, rows.all_channels(), rows.pixels};
  const Tensor x = side.activations(shape, -0.5f, 1.5f), dy = side.activations(shape);
  const Tensor gamma = side.parameters({rows.all_channels()}, 0.5f, 1.5f);
  const Tensor beta = side.parameters({rows.all_channels()});
  const Tensor dgamma = side.destination({rows.all_channels()}, accumulate);
  const Tensor dbeta = side.destination({rows.all_channels()}, accumulate);
  NormalizationOperations& operations = side.backend().normalization();
  const NormResult forward = operations.normalize(x, rows, gamma, beta, 1e-3f);
  const Tensor dx =
      operations.normalize_gradient(x, rows, forward.statistics, dy, gamma, dgamma, dbeta,
                                    accumulate, residual ? side.activations(shape) : Tensor());
  return {{"y", forward.y},
          {"statistics", forward.statistics},
          {"dx", dx},
          {"dgamma", dgamma},
          {"dbeta", dbeta}};
}

}  // namespace

void add_normalization_operations_problems(Problems& problems) {
  for (const bool logarithm : {false, true})
    for (const auto& [shape, axis] : {std::pair{Shape{7, 33}, 1}, std::pair{Shape{7, 33}, 0},
                                      std::pair{Shape{3, 5, 70}, 1}, std::pair{Shape{0, 4}, 1}})
      problems.push_back({fmt::format("normalization: {}/{} axis {}",
                                      logarithm ? "log_softmax" : "softmax", shape.text(), axis),
                          [=, shape = shape, axis = axis](Side& side) {
                            return softmax(side, shape, axis, logarithm);
                          }});
  for (const auto& [accumulate, residual] :
       {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}})
    for (const NormRows& rows :
         {NormRows{5, 1, 33, 1}, NormRows{70, 1, 300, 1}, NormRows{9, 1, 8, 1},
          NormRows{40, 1, 264, 1}, NormRows{3, 1, 512, 1}, NormRows{2, 1, 1024, 1},
          NormRows{3, 2, 4, 21}, NormRows{2, 3, 7, 49}, NormRows{6, 3, 5, 1}, NormRows{0, 2, 3, 4}})
      problems.push_back({fmt::format("normalization: rows/{}x{}x{}x{}{}{}", rows.items,
                                      rows.groups, rows.channels, rows.pixels,
                                      accumulate ? ", adding" : "", residual ? ", residual" : ""),
                          [=, accumulate = accumulate, residual = residual](Side& side) {
                            return normalize(side, rows, accumulate, residual);
                          }});
}

}  // namespace tasuki::testing
