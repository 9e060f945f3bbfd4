#include "tasuki/communicator/node/node_communicator.hpp"

#include <array>
#include <limits>

#include "tasuki/communicator/gpu/gpu_exchange.hpp"

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

bool NodeCommunicator::all_nodes_in_place(const GradientView& gradients) {
  const std::pair<const void*, std::int64_t> key{gradients.arena.raw(), gradients.arena.count()};
  const auto known = in_place_.find(key);
  if (gradients.is_agreed && known != in_place_.end()) return known->second;
  return in_place_[key] = all_nodes_in_place(gradients.arena, ReduceOp::sum);
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
