#include "bindings/losses.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"

namespace tasuki::bindings {
namespace {

namespace F = functions;

Variable mean_absolute_error(const Variable& y, const Tensor& t) {
  return F::mean(F::abs(y - Variable(t)));
}

constexpr std::array known = {
    NamedLoss{"mean_squared_error", false, true, false,
              [](const Variable& y, const Tensor& t) { return F::mean_squared_error(y, t); }},
    NamedLoss{"mean_absolute_error", false, true, false, mean_absolute_error},
    NamedLoss{"huber_loss", false, true, false,
              [](const Variable& y, const Tensor& t) { return F::huber_loss(y, t); }},
    NamedLoss{"softmax_cross_entropy", true, false, true,
              [](const Variable& y, const Tensor& t) { return F::softmax_cross_entropy(y, t); }},
    NamedLoss{"sigmoid_cross_entropy", true, true, false,
              [](const Variable& y, const Tensor& t) { return F::sigmoid_cross_entropy(y, t); }}};

template <class Label>
std::int64_t count_labels(const Tensor& t, std::int64_t classes) {
  std::int64_t count = 0;
  for (const Label label : t.span<Label>()) {
    if (label < -1 || label >= classes)
      fail(ErrorKind::usage, "t: expected labels from 0 to {} (-1 does not count), found {}",
           classes - 1, label);
    count += label >= 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

const NamedLoss& loss_named(std::string_view name) {
  const auto* const found = std::ranges::find(known, name, &NamedLoss::name);
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const NamedLoss& one : known) names.emplace_back(one.name);
  fail(ErrorKind::usage, "loss: expected one of {}, found {}", join(names, ", "),
       quoted_input(name));
}

std::int64_t weight_of(const Tensor& t, std::int64_t classes) {
  switch (t.dtype()) {
    case DType::int32:
      return count_labels<std::int32_t>(t, classes);
    case DType::int64:
      return count_labels<std::int64_t>(t, classes);
    default:
      return t.shape()[0];
  }
}

}  // namespace tasuki::bindings
