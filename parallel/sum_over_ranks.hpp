// SumOverRanks: the sums over ranks that a layer exchanges in its passes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "communicator/communicator.hpp"

namespace tasuki {

// Each object sums arrays of one use, such as one layer's forward pass. Ranks compare types and
// shapes only when the shape has changed, which happens on all ranks alike. Otherwise a sum is one
// exchange, for which this rank waits.
class SumOverRanks {
 public:
  // `layer`: for error messages, "batch normalisation".
  SumOverRanks(std::shared_ptr<Communicator> communicator, std::string layer)
      : communicator_(std::move(communicator)), layer_(std::move(layer)) {}

  Communicator& communicator() const { return *communicator_; }
  // The result is valid until the next call; `own` keeps its values. Collective.
  Tensor of(const Tensor& own);

 private:
  std::shared_ptr<Communicator> communicator_;
  std::string layer_;
  Tensor sums_;
  bool is_agreed_ = false;
};

}  // namespace tasuki
