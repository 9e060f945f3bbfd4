// Sequential: layers and functions, called one after the other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/range.hpp"
#include "nn/layer.hpp"

namespace tasuki {

//   Sequential net;
//   net.append("conv1", std::make_unique<Conv2d>(3, 16, 3)).append(F::relu);
class Sequential : public Layer {
 public:
  using Link = std::function<Variable(const Variable&)>;

  Sequential& append(const std::string& name, std::unique_ptr<Layer> layer);
  // A function without parameters.
  Sequential& append(Link function);
  // What was appended since the last block is one that programs may have recomputed
  // (nn/recompute.hpp).
  Sequential& end_block();

  Variable forward(const Variable& x) override;

 private:
  Variable run(Range links, const Variable& x) const;

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Link> links_;
  std::vector<Range> blocks_;  // of links
};

}  // namespace tasuki
