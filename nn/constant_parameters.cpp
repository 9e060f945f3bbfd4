#include "nn/constant_parameters.hpp"

#include "nn/node.hpp"

namespace tasuki {

ConstantParameters::ConstantParameters(const Module& module) {
  for (const Module::NamedParameter& named : module.all_parameters())
    if (!named.parameter->is_frozen()) learning_.push_back(named.parameter);
  for (const Parameter* parameter : learning_) parameter->node()->is_frozen = true;
}

ConstantParameters::~ConstantParameters() {
  for (const Parameter* parameter : learning_) parameter->node()->is_frozen = false;
}

}  // namespace tasuki
