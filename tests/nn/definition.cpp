#include "definition.hpp"

#include <cmath>

#include "tensor/backend.hpp"

namespace tasuki::testing {
namespace {

struct Operation {
  std::int64_t places[2];
  double slopes[2];
};
std::vector<Operation> tape;

Number recorded(double value, const Number& a, double by_a, const Number& b = {}, double by_b = 0) {
  if (a.place < 0 && b.place < 0) return {value};
  tape.push_back({{a.place, b.place}, {by_a, by_b}});
  return {value, std::ssize(tape) - 1};
}

// Of sum(result * upstream), for everything on the tape.
std::vector<double> slopes_of(const Numbers& result, const Tensor& upstream) {
  std::vector<double> slopes(tape.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    if (result[i].place >= 0)
      slopes[static_cast<std::size_t>(result[i].place)] +=
          static_cast<double>(upstream.data<float>()[i]);
  for (std::size_t at = tape.size(); at-- > 0;)
    for (const int i : {0, 1})
      if (tape[at].places[i] >= 0)
        slopes[static_cast<std::size_t>(tape[at].places[i])] += tape[at].slopes[i] * slopes[at];
  return slopes;
}

Tensor tensor_of(std::vector<double> values, const Shape& shape) {
  // Differences of equal numbers, but for what double rounds.
  for (double& value : values)
    if (std::abs(value) < 1e-14) value = 0;
  return Tensor::from(std::span<const double>(values), shape).to(DType::float32);
}

}  // namespace

Number operator+(const Number& a, const Number& b) {
  return recorded(a.value + b.value, a, 1, b, 1);
}
Number operator-(const Number& a, const Number& b) {
  return recorded(a.value - b.value, a, 1, b, -1);
}
Number operator*(const Number& a, const Number& b) {
  return recorded(a.value * b.value, a, b.value, b, a.value);
}
Number operator/(const Number& a, const Number& b) {
  return recorded(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
Number exp(const Number& x) {
  return recorded(std::exp(x.value), x, std::exp(x.value));
}
Number log(const Number& x) {
  return recorded(std::log(x.value), x, 1 / x.value);
}
Number sqrt(const Number& x) {
  return recorded(std::sqrt(x.value), x, 0.5 / std::sqrt(x.value));
}
Number tanh(const Number& x) {
  const double y = std::tanh(x.value);
  return recorded(y, x, 1 - y * y);
}
Number sigmoid(const Number& x) {
  const double y = 1 / (1 + std::exp(-x.value));
  return recorded(y, x, y * (1 - y));
}

ReferenceCase defined_case(const std::string& name, const nlohmann::json& options,
                           const std::map<std::string, Tensor>& inputs, const Shape& result,
                           const Definition& definition) {
  tape.clear();
  std::map<std::string, Numbers> numbers;
  for (const auto& [key, tensor] : inputs) {
    const Tensor values = tensor.to(DType::float64);
    for (const double value : values.span<double>()) {
      numbers[key].push_back({value});
      if (key == "t" || key == "target") continue;
      numbers[key].back().place = std::ssize(tape);
      tape.push_back({{-1, -1}, {0, 0}});
    }
  }
  ReferenceCase made{name, options, inputs, {}, {}, {}};
  // Positive ones, because sums of a few must not nearly cancel out.
  Tensor upstream = random_tensor(result, 99);
  for (float& value : upstream.span<float>()) value = value * 0.375f + 0.625f;
  made.upstream = upstream.to(DType::bfloat16).to(DType::float32);
  const Numbers found = definition(numbers);
  std::vector<double> values;
  for (const Number& each : found) values.push_back(each.value);
  made.result = tensor_of(values, result);
  const std::vector<double> slopes = slopes_of(found, made.upstream);
  for (const auto& [key, of_input] : numbers) {
    if (of_input.front().place < 0) continue;
    const auto begin = slopes.begin() + of_input.front().place;
    made.gradients[key] = tensor_of({begin, begin + std::ssize(of_input)}, inputs.at(key).shape());
  }
  return made;
}

}  // namespace tasuki::testing
