#include "nn/sequential.hpp"

#include "nn/recompute.hpp"

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

Sequential& Sequential::end_block() {
  const std::int64_t begin = blocks_.empty() ? 0 : blocks_.back().end;
  TASUKI_CHECK(begin < std::ssize(links_), "a block of no layers");
  blocks_.push_back({begin, std::ssize(links_)});
  return *this;
}

Variable Sequential::run(Range links, const Variable& x) const {
  Variable value = x;
  for (std::int64_t i = links.begin; i < links.end; ++i)
    value = links_[static_cast<std::size_t>(i)](value);
  return value;
}

Variable Sequential::forward(const Variable& x) {
  Variable value = x;
  for (const Range& block : blocks_)
    value =
        may_recompute([this, block](const Variable& input) { return run(block, input); }, value);
  return run({blocks_.empty() ? 0 : blocks_.back().end, std::ssize(links_)}, value);
}

}  // namespace tasuki
