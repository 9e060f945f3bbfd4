#include "nn/sequential.hpp"

namespace tasuki {

Sequential& Sequential::append(const std::string& name, std::unique_ptr<Layer> layer) {
  TASUKI_CHECK(layer != nullptr, "no layer was given for {}", name);
  add(name, *layer);
  layers_.push_back(std::move(layer));
  return append([last = layers_.back().get()](const Variable& x) { return last->forward(x); });
}

Sequential& Sequential::append(Link function) {
  links_.push_back(std::move(function));
  return *this;
}

Variable Sequential::forward(const Variable& x) {
  Variable value = x;
  for (const Link& link : links_) value = link(value);
  return value;
}

}  // namespace tasuki
