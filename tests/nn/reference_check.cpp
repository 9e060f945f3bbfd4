#include "reference_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "core/json.hpp"
#include "nn/backward.hpp"
#include "nn/check_gradients.hpp"
#include "tensor/backend.hpp"

namespace tasuki::testing {
namespace {

Inputs as_variables(const ReferenceCase& test) {
  Inputs variables;
  for (const auto& [name, tensor] : test.inputs)
    variables.emplace(name, Variable(tensor, test.gradients.contains(name)));
  return variables;
}

std::map<std::string, Tensor> gradients_of(const Inputs& inputs, const ReferenceCase& test) {
  std::map<std::string, Tensor> found;
  for (const auto& [name, gradient] : test.gradients) {
    EXPECT_TRUE(inputs.at(name).grad().defined()) << "no gradient of " << name;
    if (inputs.at(name).grad()) found.emplace(name, inputs.at(name).grad().clone());
  }
  return found;
}

// Functions of a graph that was kept leave nothing of a pass to the next one.
void expect_the_same_again(const Variable& loss, const Inputs& inputs, const ReferenceCase& test,
                           const std::map<std::string, Tensor>& first) {
  for (const auto& [name, gradient] : first) inputs.at(name).clear_grad();
  loss.backward();
  for (const auto& [name, gradient] : gradients_of(inputs, test))
    EXPECT_EQ(relative_error(gradient, first.at(name)), 0) << "second pass, gradient of " << name;
}

// The derivative of sum(result * upstream) along `direction`, from differences.
double difference_along(const Subject& run, const ReferenceCase& test,
                        const std::map<std::string, Tensor>& direction, double step) {
  const NoGrad no_grad;
  std::vector<Tensor> values, along;
  Inputs inputs = as_variables(test);
  for (const auto& [name, tensor] : direction) {
    values.push_back(test.inputs.at(name).clone());
    along.push_back(tensor);
    inputs[name] = Variable(values.back());
  }
  return central_difference([&] { return inner_product(run(inputs, test).value(), test.upstream); },
                            values, along, step);
}

bool is_parameter(const std::string& name) {
  return std::string_view("wbg").find(name.front()) != std::string_view::npos;
}

}  // namespace

Variable optional(const Inputs& in, const std::string& name) {
  const auto found = in.find(name);
  return found == in.end() ? Variable() : found->second;
}

void check_case(const Subject& run, const ReferenceCase& test) {
  SCOPED_TRACE(test.name + " " + json_text(test.options));
  const Inputs inputs = as_variables(test);
  const Variable result = run(inputs, test);
  EXPECT_LT(relative_error(result.value(), test.result), reference_tolerance);
  const Variable loss = weighted_sum(result, test.upstream);
  run_backward(loss, {.seed = Tensor::full({}, 1), .keeps_graph = true});
  const std::map<std::string, Tensor> first = gradients_of(inputs, test);

  // Along the gradient itself, bent by noise so that every element takes part.
  std::map<std::string, Tensor> direction;
  double expected = 0;
  for (const auto& [name, gradient] : test.gradients) {
    SCOPED_TRACE("gradient of " + name);
    ASSERT_TRUE(inputs.at(name).grad().defined());
    EXPECT_LT(relative_error(inputs.at(name).grad(), gradient), reference_tolerance);
    const double length = std::sqrt(inner_product(gradient, gradient));
    const Tensor noise = random_tensor(gradient.shape(), 7);
    const double bend = length / std::sqrt(inner_product(noise, noise)) / 2;
    direction[name] = backend(Device::cpu()).add(gradient, Tensor::zeros(gradient.shape()));
    backend(Device::cpu()).accumulate(direction[name], noise, static_cast<float>(bend));
    expected += inner_product(direction[name], gradient);
  }
  expect_the_same_again(loss, inputs, test, first);
  if (expected == 0) return;
  double length = 0;
  for (const auto& [name, along] : direction) length += inner_product(along, along);
  const double difference = difference_along(run, test, direction, 4e-3 / std::sqrt(length));
  EXPECT_NEAR(difference, expected, difference_tolerance * std::abs(expected));
}

void check_rounded_case(const Subject& run, const ReferenceCase& test) {
  SCOPED_TRACE("bfloat16, " + test.name + " " + json_text(test.options));
  Inputs inputs;
  for (const auto& [name, tensor] : test.inputs) {
    const bool has_gradient = test.gradients.contains(name);
    const DType type = has_gradient && !is_parameter(name) ? DType::bfloat16 : tensor.dtype();
    inputs.emplace(name, Variable(tensor.to(type), has_gradient));
  }
  const Variable result = run(inputs, test);
  EXPECT_LT(relative_error(result.value().to(DType::float32), test.result), rounded_tolerance);
  weighted_sum(result, test.upstream.to(result.value().dtype())).backward();
  for (const auto& [name, gradient] : test.gradients) {
    SCOPED_TRACE("gradient of " + name);
    const Tensor& found = inputs.at(name).grad();
    ASSERT_TRUE(found.defined());
    EXPECT_EQ(found.dtype(), is_parameter(name) ? DType::float32 : DType::bfloat16);
    EXPECT_LT(relative_error(found.to(DType::float32), gradient), rounded_tolerance);
  }
}

void check_file(const std::string& file, const Subject& run) {
  const auto cases = read_reference_cases(file);
  ASSERT_FALSE(cases.empty());
  for (const ReferenceCase& test : cases) check_case(run, test);
}

}  // namespace tasuki::testing
