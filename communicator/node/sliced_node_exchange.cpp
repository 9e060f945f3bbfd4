#include "communicator/node/sliced_node_exchange.hpp"

#include <utility>

#include "core/error.hpp"

namespace tasuki {

SlicedNodeExchange::SlicedNodeExchange(NodeGroup& node, Tensor values, ReduceOp op, Start start)
    : node_(node), values_(std::move(values)), op_(op), start_(std::move(start)) {
  if (node_.size() > 1) awaited_ = node_.offer(values_, op_);
}

void SlicedNodeExchange::begin_work() {
  SharedValues shared{
      values_.dtype(), op_, values_.count(), {static_cast<std::byte*>(values_.raw())}};
  if (node_.size() > 1) {
    auto offered = node_.offered(values_, op_);
    TASUKI_CHECK(offered.has_value(), "the values of a node's ranks are not in one allocation");
    shared = *std::move(offered);
  }
  work_ = start_(shared);
}

bool SlicedNodeExchange::advance() {
  const bool is_alone = node_.size() == 1;
  switch (stage_) {
    case Stage::meeting:
      if (!is_alone && !node_.has_passed(awaited_)) return false;
      begin_work();
      stage_ = Stage::working;
      return true;
    case Stage::working:
      if (!work_->is_done()) return work_->advance();
      work_.reset();
      if (!is_alone) awaited_ = node_.leave();
      stage_ = is_alone ? Stage::done : Stage::leaving;
      return true;
    case Stage::leaving:
      if (!node_.has_passed(awaited_)) return false;
      stage_ = Stage::done;
      return true;
    case Stage::done:
      break;
  }
  return false;
}

}  // namespace tasuki
