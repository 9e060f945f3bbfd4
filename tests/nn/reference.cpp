#include "reference.hpp"

#include <cmath>

#include "core/file.hpp"
#include "core/philox.hpp"
#include "nn/function.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki::testing {
namespace {

class WeightedSum final : public Function {
 public:
  explicit WeightedSum(Tensor weights) : weights_(std::move(weights)) {}
  const char* name() const override { return "weighted_sum"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    const auto scale = static_cast<float>(dy.item());
    const Tensor gradient = weights_.to(DType::float32).clone();
    for (float& value : gradient.span<float>()) value *= scale;
    gradients.add(0, gradient.to(weights_.dtype()));
  }

 private:
  Tensor weights_;
};

}  // namespace

Tensor tensor_from(const nlohmann::json& packed, DType dtype) {
  const auto sizes = packed.at("shape").get<std::vector<std::int64_t>>();
  const auto values = packed.at("values").get<std::vector<double>>();
  return Tensor::from(std::span(values), Shape(sizes)).to(dtype);
}

nlohmann::json read_reference(const std::string& file) {
  return json_in(REFERENCES + "/" + file + ".json");
}

std::vector<ReferenceCase> read_reference_cases(const std::string& file) {
  std::vector<ReferenceCase> cases;
  for (const auto& item : read_reference(file)) {
    ReferenceCase made{item.at("name"), item.at("options"), {}, {}, {}, {}};
    for (const auto& [name, value] : item.at("inputs").items())
      made.inputs[name] = tensor_from(value, name == "t" ? DType::int64 : DType::float32);
    for (const auto& [name, value] : item.at("gradients").items())
      made.gradients[name] = tensor_from(value);
    made.result = tensor_from(item.at("result"));
    made.upstream = tensor_from(item.at("upstream"));
    cases.push_back(std::move(made));
  }
  return cases;
}

double inner_product(const Tensor& a, const Tensor& b) {
  const Tensor left = a.to(DType::float32).plain(), right = b.to(DType::float32).plain();
  TASUKI_CHECK(left.shape() == right.shape(), "{} and {}", left.shape().text(),
               right.shape().text());
  double sum = 0;
  for (std::size_t i = 0; i < left.span<float>().size(); ++i)
    sum += static_cast<double>(left.span<float>()[i]) * static_cast<double>(right.span<float>()[i]);
  return sum;
}

double relative_error(const Tensor& a, const Tensor& b) {
  const Tensor left = a.plain(), right = b.plain();
  TASUKI_CHECK(left.shape() == right.shape(), "{} and {}", left.shape().text(),
               right.shape().text());
  double difference = 0;
  for (std::size_t i = 0; i < left.span<float>().size(); ++i)
    difference += std::pow(
        static_cast<double>(left.span<float>()[i]) - static_cast<double>(right.span<float>()[i]),
        2);
  const double norm = inner_product(right, right);
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

Variable weighted_sum(const Variable& y, const Tensor& weights) {
  const Tensor sum = Tensor::full({}, inner_product(y.value(), weights));
  return Function::record(sum, {y}, [&] { return std::make_unique<WeightedSum>(weights); });
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Tensor made = Tensor::empty(shape);
  RandomStream stream(seed);
  for (float& value : made.span<float>()) value = 2 * stream.uniform() - 1;
  return made;
}

}  // namespace tasuki::testing
