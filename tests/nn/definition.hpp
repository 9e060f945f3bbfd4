// Functions as they are defined, number by number in double, with their gradients. A tape keeps the
// slopes of each operation, and is read backward.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference.hpp"

namespace tasuki::testing {

struct Number {
  double value = 0;
  std::int64_t place = -1;  // on the tape; -1: a constant
};
using Numbers = std::vector<Number>;  // of an array, the last axis first

Number operator+(const Number& a, const Number& b);
Number operator-(const Number& a, const Number& b);
Number operator*(const Number& a, const Number& b);
Number operator/(const Number& a, const Number& b);
Number exp(const Number& x);
Number log(const Number& x);
Number sqrt(const Number& x);
Number tanh(const Number& x);
Number sigmoid(const Number& x);

// From inputs by name to the result. All but "t" and "target" have gradients.
using Definition = std::function<Numbers(const std::map<std::string, Numbers>& inputs)>;

// A case with the definition's result and gradients. Inputs are float32, "t" int64; the gradient of
// the result has numbers in [0.25, 1) that bfloat16 has.
ReferenceCase defined_case(const std::string& name, const nlohmann::json& options,
                           const std::map<std::string, Tensor>& inputs, const Shape& result,
                           const Definition& definition);

}  // namespace tasuki::testing
