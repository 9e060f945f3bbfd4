// SlicedNodeExchange: an exchange inside a node (NodeGroup::exchange), in place and in slices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "communicator/node/node_group.hpp"
#include "communicator/sliced_work.hpp"

namespace tasuki {

class SlicedNodeExchange final : public SlicedWork {
 public:
  // Called when all ranks of the node have offered their values: begins this rank's work.
  using Start = std::function<std::unique_ptr<SlicedWork>(const SharedValues&)>;
  // The values of all ranks are in storages of one allocation, or the rank is alone on its node.
  // Collective over the node. The node begins no other exchange before this one is done.
  SlicedNodeExchange(NodeGroup& node, Tensor values, ReduceOp op, Start start);

  bool is_done() const override { return stage_ == Stage::done; }
  bool advance() override;

 private:
  enum class Stage { meeting, working, leaving, done };
  void begin_work();

  NodeGroup& node_;
  Tensor values_;
  ReduceOp op_;
  Start start_;
  Stage stage_ = Stage::meeting;
  std::uint32_t awaited_ = 0;  // of has_passed()
  std::unique_ptr<SlicedWork> work_;
};

}  // namespace tasuki
