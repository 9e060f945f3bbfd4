// Cases computed by an outside framework in float64 (tests/nn/make_references.py).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/variable.hpp"
#include "tests/support/json.hpp"

namespace tasuki::testing {

// {"shape": [...], "values": [...]} as float32, or as another type.
Tensor tensor_from(const nlohmann::json& packed, DType dtype = DType::float32);

struct ReferenceCase {
  std::string name;
  nlohmann::json options;
  std::map<std::string, Tensor> inputs;  // "t" holds int64 labels
  Tensor result;
  Tensor upstream;  // gradient of the result
  std::map<std::string, Tensor> gradients;
};

// The JSON file tests/nn/references/<file>.json as it is, or as cases.
nlohmann::json read_reference(const std::string& file);
std::vector<ReferenceCase> read_reference_cases(const std::string& file);

// |a - b| / |b|, L2 norms in double; |a - b| where b is zero.
double relative_error(const Tensor& a, const Tensor& b);
// Sum of a[i] * b[i] in double.
double inner_product(const Tensor& a, const Tensor& b);

// Sum of y * weights as a Variable, so that `weights` becomes the gradient of y.
Variable weighted_sum(const Variable& y, const Tensor& weights);

// Deterministic values in [-1, 1).
Tensor random_tensor(const Shape& shape, std::uint64_t seed);

}  // namespace tasuki::testing
