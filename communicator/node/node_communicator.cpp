#include "communicator/node/node_communicator.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki {

std::shared_ptr<Storage> NodeCommunicator::allocate_memory(std::size_t bytes, Device device) {
  if (!device.is_cpu() || intra_size() == 1) return Communicator::allocate_memory(bytes, device);
  return node_.allocate(bytes);
}

void NodeCommunicator::combine_part(const Tensor& values, std::span<const Range> parts,
                                    const Tensor& own, ReduceOp op) {
  if (inter_size() > 1) return Communicator::combine_part(values, parts, own, op);
  node_.reduce_parts(values, parts, op, part_piece_bytes, own.raw());
}

void NodeCommunicator::give_parts(const Tensor& values, std::span<const Range> parts,
                                  bool once_per_node) {
  const std::size_t element = size_of(values.dtype());
  const auto bytes_of = [&](Range part) {
    return std::span(
        static_cast<std::byte*>(values.raw()) + static_cast<std::size_t>(part.begin) * element,
        static_cast<std::size_t>(part.size()) * element);
  };
  // The rank of this node that receives the part of `owner`, a rank of another node.
  const auto receiver = [&](int owner, std::size_t ranks) {
    return static_cast<std::size_t>(topology().intra_rank_of[static_cast<std::size_t>(owner)]) %
           ranks;
  };
  constexpr int tag = 0;
  const std::int64_t limit = options().sizes.mpi_call;
  std::vector<NodeGroup::Part> on_node;
  MpiRequests requests;
  for (int owner = 0; owner < size(); ++owner) {
    const Range part = parts[static_cast<std::size_t>(owner)];
    if (part.size() == 0) continue;
    const int home = topology().node_of[static_cast<std::size_t>(owner)];
    if (home == inter_rank()) {
      on_node.push_back({topology().intra_rank_of[static_cast<std::size_t>(owner)], part});
      continue;
    }
    const std::size_t here = receiver(owner, ranks_of_node_.size());
    on_node.push_back({static_cast<int>(here), part});
    if (ranks_of_node_[here] == rank())
      start_recv(requests, bytes_of(part), owner, tag, comm().get(), limit);
  }
  if (const Range own = parts[static_cast<std::size_t>(rank())]; own.size() > 0)
    for (int other = 0; other < inter_size(); ++other) {
      if (other == inter_rank()) continue;
      const std::vector<int> ranks = topology().ranks_of_node(other);
      start_send(requests, bytes_of(own), ranks[receiver(rank(), ranks.size())], tag, comm().get(),
                 limit);
    }
  requests.wait();
  if (!once_per_node) node_.share_parts(values, on_node, limit);
}

std::vector<Range> NodeCommunicator::needed_of(const SharedValues& shared,
                                               const GradientView& gradients,
                                               int intra_rank) const {
  if (gradients.needed.empty()) return {{0, shared.count}};
  return {shared.here(gradients.needed_by(ranks_of_node_[static_cast<std::size_t>(intra_rank)])),
          shared.here({gradients.divided(), gradients.arena.count()})};
}

bool NodeCommunicator::all_nodes_in_place(const Tensor& values, ReduceOp op) {
  const std::int64_t segment = node_.segment_of(values);
  // A rank that is alone on its node can use any memory.
  constexpr auto any = std::numeric_limits<std::int64_t>::min();
  const bool is_alone = intra_size() == 1;
  std::array<std::int64_t, 3> maxima{is_alone ? any : segment, is_alone ? any : -segment,
                                     !is_alone && segment == 0};
  require_agreement(
      "allreduce",
      fmt::format("{} of {} {} values", name_of(op), values.count(), name_of(values.dtype())),
      maxima);
  const bool one_segment = maxima[0] == any || maxima[0] == -maxima[1];
  return one_segment && maxima[2] == 0;
}

bool NodeCommunicator::all_nodes_in_place(const GradientView& values, ReduceOp op) {
  const std::pair<const void*, std::int64_t> key{values.arena.raw(), values.arena.count()};
  const auto known = in_place_.find(key);
  if (values.is_agreed && known != in_place_.end()) {
    known->second.is_agreed = true;
    return known->second.in_place;
  }
  // A program may sum new arrays in each step, which must not fill memory. All ranks forget them in
  // the same exchange, as they count exchanges and not addresses.
  constexpr std::int64_t most_new = 1024;
  if (++new_ % most_new == 0)
    std::erase_if(in_place_, [](const auto& each) { return !each.second.is_agreed; });
  const bool in_place = all_nodes_in_place(values.arena, op);
  in_place_[key] = {.in_place = in_place, .is_agreed = values.is_agreed};
  return in_place;
}

std::string NodeCommunicator::wire_text() const {
  return text_of_wire(inter_size() > 1 ? "between nodes"
                                       : "between nodes (there is one: gradients stay float32)");
}

GpuGroup& NodeCommunicator::gpu_node() {
  if (!gpu_node_) gpu_node_ = gpu().connect(node_.comm());
  return *gpu_node_;
}

void NodeCommunicator::through_leader_on_gpu(const Tensor& values, ReduceOp op,
                                             const MpiComm& leaders, const Wire& wire,
                                             bool staged) {
  constexpr int leader = 0;
  gpu_node().reduce(values, op, leader);
  if (leaders) gpu().between_nodes(values, op, leaders.get(), wire, staged);
  gpu_node().broadcast(values, leader);
}

}  // namespace tasuki
