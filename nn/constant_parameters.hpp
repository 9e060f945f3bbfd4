// ConstantParameters: a scope in which functions take a module's parameters for constants.
#pragma once

#include <vector>

#include "nn/module.hpp"

namespace tasuki {

// What is computed while it lives passes gradients through the module to its input, and none to its
// parameters; their gradients are not computed at all. So a generator learns through a
// discriminator that learns something else in the same step:
//   Variable loss = loss_of(discriminator(real), discriminator(Variable(fake.value())));
//   const ConstantParameters constants(discriminator);
//   return loss + sigmoid_cross_entropy(discriminator(fake), ones);
// For the thread that uses the module.
class ConstantParameters {
 public:
  explicit ConstantParameters(const Module& module);
  ~ConstantParameters();
  ConstantParameters(const ConstantParameters&) = delete;
  ConstantParameters& operator=(const ConstantParameters&) = delete;

 private:
  std::vector<Parameter*> learning_;  // before
};

}  // namespace tasuki
