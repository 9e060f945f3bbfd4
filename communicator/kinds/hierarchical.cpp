// hierarchical: reduces inside the node into the leader's memory, allreduces between the leaders of
// the nodes, and copies to the other ranks inside the node, all three at once on different pieces.
//
// The leader (the node's first rank) drives the transfer. The other ranks of the node combine the
// pieces for it, in the order in which the transfer needs them, and copy finished pieces into their
// own memory as they come. On GPUs, NCCL does the work inside the node.
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "communicator/algorithms/planned_allreduce.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/node/node_communicator.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

// Private buffers: long enough that the transfer of a piece consists of many chunks.
constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr int leader = 0;

// The work of a rank that does not lead its node.
class Follower final : public SlicedWork {
 public:
  // `plan` outlives this object. `own_pieces`: those that this rank combines. `needed`: the
  // elements that it copies. `own` and `leaders` count pieces; `own_count` and `leaders_count` are
  // their values before this exchange.
  Follower(SharedValues shared, const MessagePlan& plan, std::vector<Range> own_pieces,
           std::vector<Range> needed, SharedCounter& own, std::uint32_t own_count,
           SharedCounter& leaders, std::uint32_t leaders_count, int rank)
      : shared_(std::move(shared)),
        complete_(plan.completion),
        own_pieces_(std::move(own_pieces)),
        needed_(std::move(needed)),
        own_(own),
        leaders_(leaders),
        own_count_(own_count),
        leaders_count_(leaders_count),
        rank_(rank) {}

  bool is_done() const override {
    return combined_ == own_pieces_.size() && copied_ == complete_.size();
  }
  bool advance() override {
    if (combined_ < own_pieces_.size())
      combine_next();
    else if (copied_ < complete_.size() && leaders_.has_reached(leaders_count_ + 1))
      copy_next();
    else
      return false;
    return true;
  }
  void finish() {
    while (combined_ < own_pieces_.size()) combine_next();
    while (copied_ < complete_.size()) {
      leaders_.wait_for(leaders_count_ + 1);
      copy_next();
    }
  }

 private:
  void combine_next() {
    constexpr std::array<int, 1> into{leader};
    const Range piece = own_pieces_[combined_++];
    shared_.reduce(piece.begin, piece.end, into);
    own_.set(++own_count_);
  }
  void copy_next() {
    const Range piece = complete_[copied_++];
    ++leaders_count_;
    shared_.copy(leader, rank_, piece, needed_);
  }

  SharedValues shared_;
  const std::vector<Range>& complete_;
  std::vector<Range> own_pieces_, needed_;
  SharedCounter &own_, &leaders_;
  std::uint32_t own_count_, leaders_count_;
  int rank_;
  std::size_t combined_ = 0, copied_ = 0;  // pieces
};

class HierarchicalCommunicator : public NodeCommunicator {
 public:
  explicit HierarchicalCommunicator(const CommunicatorSetup& setup)
      : NodeCommunicator(setup),
        leaders_(split_ranks(intra_rank() == leader ? 0 : MPI_UNDEFINED, inter_rank())),
        between_nodes_(inter_rank(), inter_size(),
                       {options().algorithm, options().sizes, options().link}),
        counts_(static_cast<std::size_t>(intra_size()), 0) {}

 protected:
  bool checks_agreement() const override { return true; }
  std::string describe_kind() const override {
    if (!options().device.is_cpu())
      return fmt::format(
          "hierarchical: NCCL inside {} node(s), MPI between their first ranks by {}, {} ranks{}",
          inter_size(), way_between_nodes(options().wire_dtype), size(), wire_text());
    return fmt::format(
        "hierarchical: shared memory inside {} node(s), allreduce between their first ranks ({}), "
        "{} ranks{}",
        inter_size(), between_nodes_.describe(), size(), wire_text());
  }

  void combine(const Tensor& values, ReduceOp op) override { combine_view({.arena = values}, op); }
  void combine_agreed(const Tensor& values, ReduceOp op) override {
    combine_view({.arena = values, .is_agreed = true}, op);
  }
  void sum(const GradientView& gradients) override {
    work_on(gradients, ReduceOp::sum, inter_size() == 1 || all_nodes_in_place(gradients),
            wire_of(gradients));
  }
  bool sums_in_slices() const override {
    return inter_size() > 1 && between_nodes_.runs_in_slices();
  }
  std::unique_ptr<SlicedWork> start_sum(const GradientView& gradients) override {
    if (!sums_in_slices() || !all_nodes_in_place(gradients)) return nullptr;
    return node().start_exchange(
        gradients.arena, ReduceOp::sum,
        [this, gradients, wire = wire_of(gradients)](const SharedValues& shared) {
          return start_on(of_node(shared, gradients), gradients, wire);
        });
  }
  void combine_on_gpu(const Tensor& values, ReduceOp op) override {
    through_leader_on_gpu(values, op, leaders_);
  }
  void sum_on_gpu(const GradientView& gradients) override {
    through_leader_on_gpu(gradients.arena, ReduceOp::sum, leaders_, wire_of(gradients));
  }

 private:
  void combine_view(const GradientView& values, ReduceOp op) {
    work_on(values, op, inter_size() == 1 || all_nodes_in_place(values, op), {});
  }
  void work_on(const GradientView& values, ReduceOp op, bool in_place, const Wire& wire) {
    if (inter_size() == 1) return node().combine(values, op, piece_bytes, in_place);
    node().exchange(values.arena, op, piece_bytes, in_place, [&](const SharedValues& all) {
      const SharedValues shared = of_node(all, values);
      const Division division = division_of(shared, values);
      const MessagePlan& plan = between_nodes_.plan_for(division, wire.type_of(shared.dtype));
      const std::vector<std::uint32_t> before = count(plan);
      if (intra_rank() == leader)
        between_nodes_.run(shared.of_rank[leader], division, shared.dtype, shared.op,
                           leaders_.get(), work_inside(before), wire.from(shared.first));
      else
        follow(shared, values, plan, before)->finish();
    });
  }

  std::unique_ptr<SlicedWork> start_on(const SharedValues& shared, const GradientView& gradients,
                                       const Wire& wire) {
    const Division division = division_of(shared, gradients);
    const MessagePlan& plan = between_nodes_.plan_for(division, wire.type_of(shared.dtype));
    const std::vector<std::uint32_t> before = count(plan);
    if (intra_rank() != leader) return follow(shared, gradients, plan, before);
    return between_nodes_.start(shared.of_rank[leader], division, shared.dtype, shared.op,
                                leaders_.get(), work_inside(before), wire.from(shared.first));
  }

  // Between the leaders: each gets what the ranks of its node need.
  Division division_of(const SharedValues& shared, const GradientView& gradients) const {
    return tasuki::division_of(
        gradients, shared.first, shared.count, inter_size(),
        [this](int rank) { return topology().node_of[static_cast<std::size_t>(rank)]; });
  }

  // Returns the values of the node's counters before an exchange by this plan, and adds to counts_
  // what the exchange counts. So every rank knows where the next one begins, and no counter is
  // reset.
  std::vector<std::uint32_t> count(const MessagePlan& plan) {
    std::vector<std::uint32_t> before = counts_;
    for (std::size_t piece = 0; piece < plan.need.size() && intra_size() > 1; ++piece)
      ++counts_[static_cast<std::size_t>(worker_of(piece))];
    counts_[leader] += static_cast<std::uint32_t>(plan.completion.size());
    return before;
  }

  int worker_of(std::size_t piece) const {
    return 1 + static_cast<int>(piece % static_cast<std::size_t>(intra_size() - 1));
  }

  // The leader's work inside the node.
  PieceWork work_inside(const std::vector<std::uint32_t>& before) {
    const auto prepare = [this, needed = std::size_t{0}, ready = before](Range /*piece*/) mutable {
      if (intra_size() == 1) return true;
      const int worker = worker_of(needed);
      std::uint32_t& combined = ready[static_cast<std::size_t>(worker)];
      if (!node().counter(worker).has_reached(combined + 1)) return false;
      ++combined;
      ++needed;
      return true;
    };
    const auto finished = [this, complete = before[leader]](Range /*piece*/) mutable {
      node().counter(leader).set(++complete);
    };
    return {prepare, finished};
  }

  std::unique_ptr<Follower> follow(const SharedValues& shared, const GradientView& gradients,
                                   const MessagePlan& plan,
                                   const std::vector<std::uint32_t>& before) {
    std::vector<Range> own_pieces;
    for (std::size_t piece = 0; piece < plan.need.size(); ++piece)
      if (worker_of(piece) == intra_rank()) own_pieces.push_back(plan.need[piece]);
    return std::make_unique<Follower>(
        shared, plan, std::move(own_pieces), needed_of(shared, gradients, intra_rank()),
        node().counter(intra_rank()), before[static_cast<std::size_t>(intra_rank())],
        node().counter(leader), before[leader], intra_rank());
  }

  MpiComm leaders_;                 // on leaders alone
  PlannedAllreduce between_nodes_;  // the leader's, known to all ranks of the node
  // The values of the node's counters after earlier exchanges: the leader's counts finished pieces,
  // each other rank's the pieces that it has combined.
  std::vector<std::uint32_t> counts_;
};

constexpr bool needs_gpu = false, takes_wire_dtype = true, takes_algorithm = true;
const CommunicatorRegistration<HierarchicalCommunicator> registration{
    "hierarchical",   "shared memory or NCCL in nodes, allreduce between their first ranks",
    "any placement",  needs_gpu,
    takes_wire_dtype, takes_algorithm};

}  // namespace
}  // namespace tasuki
