#include "optimizer/shared_weights.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "communicator/node/node_array.hpp"

namespace tasuki {

void SharedWeights::share(bool shared, std::int64_t group) {
  TASUKI_CHECK(trained_.arena == nullptr, "share() comes before setup()");
  is_wanted_ = shared;
  group_ = group;
}

std::string SharedWeights::find_why_not(const OptimizerHook* hook_of_arrays) const {
  if (!trained_.has_peers()) return "one rank";
  const Device device = trained_.model->device();
  if (!device.is_cpu()) return "on " + device.text();
  const Communicator& communicator = *trained_.communicator;
  if (!communicator.exchanges_gradients() || !communicator.shares_memory())
    return "communicator " + communicator.name();
  if (communicator.inter_size() == communicator.size()) return "one rank on each node";
  if (hook_of_arrays != nullptr)
    return fmt::format("hook {} works on all gradients", hook_of_arrays->name());
  return "";
}

std::unique_ptr<Communicator> SharedWeights::find_sharers(const OptimizerHook* hook_of_arrays) {
  why_not_ = is_wanted_ ? find_why_not(hook_of_arrays) : "";
  if (!is_wanted_ || !why_not_.empty()) return std::move(sharers_);
  if (sharers_) return nullptr;
  Communicator& communicator = *trained_.communicator;
  const Tensor own = Tensor::from(std::span<const std::int64_t>(&group_, 1), {1});
  groups_.clear();
  std::vector<std::pair<int, std::int64_t>> known;
  for (int rank = 0; const Tensor& other : communicator.allgather(own)) {
    const std::pair group{communicator.topology().node_of[static_cast<std::size_t>(rank++)],
                          other.to(Device::cpu()).data<std::int64_t>()[0]};
    const auto found = std::ranges::find(known, group);
    groups_.push_back(found - known.begin());
    if (found == known.end()) known.push_back(group);
  }
  if (known.size() == groups_.size()) {
    why_not_ = "one rank on each socket";
    return nullptr;
  }
  const auto rank = static_cast<std::size_t>(communicator.rank());
  sharers_ = communicator.split(static_cast<int>(groups_[rank]), communicator.rank());
  if (!trained_.all_ranks(sharers_->size() == 1 || allocate_once(*sharers_, 1) != nullptr)) {
    why_not_ = "/proc/self/pagemap cannot be read";
    sharers_.reset();
  }
  return nullptr;
}

std::vector<int> SharedWeights::holders() const {
  std::vector<int> holders(
      trained_.has_peers() ? static_cast<std::size_t>(trained_.communicator->size()) : 1);
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    const auto first = are_shared() ? std::ranges::find(groups_, groups_[rank]) - groups_.begin()
                                    : static_cast<std::ptrdiff_t>(rank);
    holders[rank] = static_cast<int>(first);
  }
  return holders;
}

bool SharedWeights::are_by_node() const {
  if (!are_shared()) return false;
  const std::vector<int>& nodes = trained_.communicator->topology().node_of;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto first = std::ranges::find(nodes, nodes[rank]) - nodes.begin();
    if (groups_[rank] != groups_[static_cast<std::size_t>(first)]) return false;
  }
  return true;
}

std::string SharedWeights::describe() const {
  if (are_shared()) return "one set for the ranks of a node";
  return why_not_.empty() ? "one set per rank" : fmt::format("one set per rank ({})", why_not_);
}

}  // namespace tasuki
