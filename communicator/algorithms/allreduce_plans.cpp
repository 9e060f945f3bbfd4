#include "communicator/algorithms/allreduce_plans.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace tasuki {
namespace {

using Chunks = std::vector<Range>;

// Sends chunks to one rank while others come from one.
void pass(PlanBuilder& plan, int to, const Chunks& out, int from, const Chunks& in,
          Arrival arrival) {
  for (std::size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
    if (i < out.size()) plan.send(to, out[i]);
    if (i < in.size()) plan.receive(from, in[i], arrival);
  }
}

// One rank's plan, made of exchanges with one other rank after the other.
class Exchanges {
 public:
  explicit Exchanges(const VectorPieces& vector) : vector_(vector) {}

  // Sends one piece to the peer while another one comes from it.
  void swap(int peer, Range sent, Range received, Arrival arrival) {
    pass(plan_, peer, vector_.chunks_of(sent), peer, vector_.chunks_of(received), arrival);
  }
  void send(int peer, Range piece) { swap(peer, piece, {}, Arrival::replacing); }
  void receive(int peer, Range piece) { swap(peer, {}, piece, Arrival::replacing); }
  MessagePlan build() { return plan_.build(); }

 private:
  const VectorPieces& vector_;
  PlanBuilder plan_;
};

// The chunks of each part of a reduce-scatter, by the number of the rank that owns the part.
using ChunksOfParts = std::vector<Chunks>;

PlanBuilder scatter_by_ring(const ChunksOfParts& parts, int rank) {
  const auto ranks = static_cast<int>(parts.size());
  const auto behind = [&](int steps) {
    return static_cast<std::size_t>((rank + 2 * ranks - steps) % ranks);
  };
  PlanBuilder plan;
  for (int step = 1; step < ranks; ++step)
    pass(plan, (rank + 1) % ranks, parts[behind(step)], static_cast<int>(behind(1)),
         parts[behind(step + 1)], Arrival::added);
  return plan;
}

// Every rank is the root of a tree. In it, a rank's number is its distance from the root, and the
// parent of a number is the number without its lowest bit. So in step k a rank sends to the same
// parent in all trees in which it sends: the rank 2^k before it.
PlanBuilder scatter_by_trees(const ChunksOfParts& parts, int rank) {
  const auto ranks = static_cast<int>(parts.size());
  const auto sent_by = [&](int sender, int bit) {
    Chunks chunks;
    for (int owner = 0; owner < ranks; ++owner) {
      const int number = (sender - owner + ranks) % ranks;
      const Chunks& part = parts[static_cast<std::size_t>(owner)];
      if ((number & (2 * bit - 1)) == bit) chunks.insert(chunks.end(), part.begin(), part.end());
    }
    return chunks;
  };
  PlanBuilder plan;
  for (int bit = 1; bit < ranks; bit *= 2) {
    const int child = (rank + bit) % ranks;
    pass(plan, (rank - bit + ranks) % ranks, sent_by(rank, bit), child, sent_by(child, bit),
         Arrival::added);
  }
  return plan;
}

PlanBuilder scatter_directly(const ChunksOfParts& parts, int rank) {
  const auto ranks = static_cast<int>(parts.size());
  const Chunks& own = parts[static_cast<std::size_t>(rank)];
  PlanBuilder plan;
  for (std::size_t i = 0; i < std::ranges::max(parts, {}, &Chunks::size).size(); ++i) {
    for (int distance = 1; distance < ranks; ++distance) {
      const int owner = (rank + distance) % ranks;
      const Chunks& part = parts[static_cast<std::size_t>(owner)];
      if (i < part.size()) plan.send(owner, part[i]);
    }
    for (int distance = 1; distance < ranks && i < own.size(); ++distance)
      plan.receive((rank + ranks - distance) % ranks, own[i], Arrival::held);
  }
  return plan;
}

}  // namespace

MessagePlan plan_reduce_scatter(AllreduceAlgorithm algorithm, const VectorPieces& vector,
                                const Parts& parts, int rank) {
  ChunksOfParts chunks;
  for (const std::vector<Range>& part : parts) {
    Chunks& of_part = chunks.emplace_back();
    for (const Range& range : part)
      std::ranges::copy(vector.chunks_of(range), std::back_inserter(of_part));
  }
  const std::vector<Range>& own = parts[static_cast<std::size_t>(rank)];
  switch (algorithm) {
    case AllreduceAlgorithm::ring:
      return scatter_by_ring(chunks, rank).build_for(own);
    case AllreduceAlgorithm::halving_doubling:
    case AllreduceAlgorithm::tree:
      return scatter_by_trees(chunks, rank).build_for(own);
    case AllreduceAlgorithm::direct:
      return scatter_directly(chunks, rank).build_for(own);
    case AllreduceAlgorithm::mpi:
      break;
  }
  fail(ErrorKind::internal, "the messages of {} are not known", name_of(algorithm));
}

MessagePlan plan_ring(const VectorPieces& vector, int rank, int ranks) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  // A block's number may be negative: steps count down from the rank's own block, nearly twice
  // around the ring.
  const auto chunks_of_block = [&](int block) {
    return vector.chunks_of(vector.part_of(vector.whole(), ranks, (block + 2 * ranks) % ranks));
  };
  PlanBuilder plan;
  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    const auto sent = chunks_of_block(rank - step), received = chunks_of_block(rank - step - 1);
    const Arrival arrival = step < ranks - 1 ? Arrival::added : Arrival::replacing;
    pass(plan, next, sent, previous, received, arrival);
  }
  return plan.build();
}

// Only `members` ranks take part in halving and doubling. They have new numbers; the other ranks
// wait for the result of their neighbour.
MessagePlan plan_halving_doubling(const VectorPieces& vector, int rank, int ranks) {
  int members = 1;
  while (2 * members <= ranks) members *= 2;
  const int pairs = ranks - members;  // ranks 0 and 1, 2 and 3, ...
  const bool is_paired = rank < 2 * pairs;
  const auto rank_of = [&](int member) { return member < pairs ? 2 * member : member + pairs; };
  const Range whole = vector.whole();
  const Range lower = vector.part_of(whole, 2, 0), upper = vector.part_of(whole, 2, 1);

  Exchanges plan(vector);
  if (is_paired && rank % 2 == 1) {
    plan.swap(rank - 1, lower, upper, Arrival::added);
    plan.send(rank - 1, upper);
    plan.receive(rank - 1, whole);
    return plan.build();
  }
  if (is_paired) {
    plan.swap(rank + 1, upper, lower, Arrival::added);
    plan.receive(rank + 1, upper);
  }
  const int member = is_paired ? rank / 2 : rank - pairs;
  Range own = whole;
  std::vector<Range> larger;
  for (int distance = members / 2; distance > 0; distance /= 2) {
    larger.push_back(own);
    const bool takes_upper = (member & distance) != 0;
    const Range kept = vector.part_of(own, 2, takes_upper ? 1 : 0);
    const Range sent = vector.part_of(own, 2, takes_upper ? 0 : 1);
    plan.swap(rank_of(member ^ distance), sent, kept, Arrival::added);
    own = kept;
  }
  for (int distance = 1; distance < members; distance *= 2) {
    const Range all = larger.back();
    larger.pop_back();
    const Range other =
        own.begin == all.begin ? Range{own.end, all.end} : Range{all.begin, own.begin};
    plan.swap(rank_of(member ^ distance), own, other, Arrival::replacing);
    own = all;
  }
  if (is_paired) plan.send(rank + 1, whole);
  return plan.build();
}

// The parent of a rank is the rank without its lowest bit, its children those with one lower bit
// more. A rank lists a chunk's way down as late as the chunk needs to reach rank 0 and to return,
// so that the chunks after it go up meanwhile.
MessagePlan plan_tree(const VectorPieces& vector, int rank, int ranks) {
  std::vector<int> children;
  int bit = 1;
  for (; rank + bit < ranks && (rank & bit) == 0; bit *= 2) children.push_back(rank + bit);
  const int parent = rank & (rank - 1);
  int depth = 0;
  for (int above = rank; above != 0; above &= above - 1) ++depth;

  const std::vector<Range> chunks = vector.chunks_of(vector.whole());
  // A turn for each level up, and one for each level down.
  const std::size_t delay = 2 * static_cast<std::size_t>(depth);
  PlanBuilder plan;
  for (std::size_t turn = 0; turn < chunks.size() + delay; ++turn) {
    if (turn < chunks.size()) {
      for (const int child : children) plan.receive(child, chunks[turn], Arrival::added);
      if (rank != 0) plan.send(parent, chunks[turn]);
    }
    if (turn < delay) continue;
    const Range complete = chunks[turn - delay];
    if (rank != 0) plan.receive(parent, complete, Arrival::replacing);
    for (const int child : children) plan.send(child, complete);
  }
  return plan.build();
}

// All ranks send over the same distance at a time, so that no rank receives from all others at
// once.
MessagePlan plan_direct(const VectorPieces& vector, int rank, int ranks) {
  PlanBuilder plan;
  for (const Range chunk : vector.chunks_of(vector.whole())) {
    for (int distance = 1; distance < ranks; ++distance)
      plan.send((rank + distance) % ranks, chunk);
    for (int distance = 1; distance < ranks; ++distance)
      plan.receive((rank + ranks - distance) % ranks, chunk, Arrival::held);
  }
  return plan.build();
}

namespace {

// What a rank adds up: chunks for itself alone, and then chunks for all.
struct SummedChunks {
  Chunks all;
  std::size_t own = 0;  // the number of chunks for this rank alone

  const Range* at(std::size_t turn) const { return turn < all.size() ? &all[turn] : nullptr; }
  // The chunk that is sent to all in this turn: the one that was added up in the turn before.
  const Range* finished_at(std::size_t turn) const { return turn > own ? at(turn - 1) : nullptr; }
};

std::vector<SummedChunks> chunks_to_sum(const VectorPieces& vector, const Parts& parts, int ranks) {
  std::vector<SummedChunks> summed;
  for (int rank = 0; rank < ranks; ++rank) {
    SummedChunks& of_rank = summed.emplace_back();
    if (!parts.empty())
      for (const Range& range : parts[static_cast<std::size_t>(rank)])
        std::ranges::copy(vector.chunks_of(range), std::back_inserter(of_rank.all));
    of_rank.own = of_rank.all.size();
    std::ranges::copy(vector.chunks_of(vector.part_of(vector.whole(), ranks, rank)),
                      std::back_inserter(of_rank.all));
  }
  return summed;
}

}  // namespace

// A finished chunk leaves a turn after it was added up, so that sends need not wait for it.
MessagePlan plan_shard_sums(const VectorPieces& vector, const Parts& parts,
                            const ShardSources& sources, int rank) {
  const int ranks = static_cast<int>(sources.of_group.size());
  const std::vector<ShardSources::Source> order = sources.in_order();
  const TreeOrder tree(sources.tree, nodes_of(order));
  std::vector<std::vector<std::size_t>> places(sources.of_group.size());  // of each rank's arrays
  for (std::size_t place = 0; place < order.size(); ++place)
    places[order[place].group].push_back(place);
  const std::vector<SummedChunks> summed = chunks_to_sum(vector, parts, ranks);
  const SummedChunks& own = summed[static_cast<std::size_t>(rank)];
  std::size_t turns = 0;
  for (const SummedChunks& each : summed) turns = std::max(turns, each.all.size() + 1);

  PlanBuilder plan;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    for (int distance = 1; distance < ranks; ++distance) {
      const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
      if (const Range* const chunk = summed[static_cast<std::size_t>(to)].at(turn))
        for (std::size_t array = 0; array < places[static_cast<std::size_t>(rank)].size(); ++array)
          plan.send(to, *chunk, array);
      if (const Range* const chunk = own.at(turn))
        for (const std::size_t place : places[static_cast<std::size_t>(from)])
          plan.receive(from, *chunk, Arrival::held, place);
    }
    for (int distance = 1; distance < ranks; ++distance) {
      const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
      if (const Range* const chunk = own.finished_at(turn)) plan.send(to, *chunk);
      if (const Range* const chunk = summed[static_cast<std::size_t>(from)].finished_at(turn))
        plan.receive(from, *chunk, Arrival::replacing);
    }
  }
  std::vector<Range> gets{vector.whole()};
  if (!parts.empty()) {
    const auto& part = parts[static_cast<std::size_t>(rank)];
    gets.insert(gets.end(), part.begin(), part.end());
  }
  MessagePlan built = plan.build_for(gets);
  built.tree = {sources.stride, places[static_cast<std::size_t>(rank)], tree.merges};
  return built;
}

MessagePlan plan_allreduce(AllreduceAlgorithm algorithm, const VectorPieces& vector, int rank,
                           int ranks) {
  TASUKI_CHECK(ranks >= 2 && rank >= 0 && rank < ranks, "a plan for rank {} of {}", rank, ranks);
  switch (algorithm) {
    case AllreduceAlgorithm::ring:
      return plan_ring(vector, rank, ranks);
    case AllreduceAlgorithm::halving_doubling:
      return plan_halving_doubling(vector, rank, ranks);
    case AllreduceAlgorithm::tree:
      return plan_tree(vector, rank, ranks);
    case AllreduceAlgorithm::direct:
      return plan_direct(vector, rank, ranks);
    case AllreduceAlgorithm::mpi:
      break;
  }
  fail(ErrorKind::internal, "the messages of {} are not known", name_of(algorithm));
}

}  // namespace tasuki
