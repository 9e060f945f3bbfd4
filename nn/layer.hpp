// Layer: a module that maps one value to another, as used by Sequential and Classifier.
#pragma once

#include "nn/module.hpp"

namespace tasuki {

class Layer : public Module {
 public:
  virtual Variable forward(const Variable& x) = 0;
  Variable operator()(const Variable& x) { return forward(x); }
};

}  // namespace tasuki
