// The algorithms of allreduce and reduce-scatter, each as the list of messages of one rank.
#pragma once

#include "communicator/algorithms/allreduce_algorithm.hpp"
#include "communicator/algorithms/message_plan.hpp"
#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/algorithms/vector_pieces.hpp"

namespace tasuki {

// The plan of `rank`, one of `ranks` (at least 2), for any algorithm except mpi. Results have the
// same bits on all ranks: an element is summed on one rank, or on all ranks in the same order.
MessagePlan plan_allreduce(AllreduceAlgorithm algorithm, const VectorPieces& vector, int rank,
                           int ranks);

// The elements of each rank's part, in increasing order.
using Parts = std::vector<std::vector<Range>>;

// A reduce-scatter among p = parts.size() ranks (at least 2): each gets the sums of its part, and
// its other elements may have any values afterwards. A rank sends each part except its own once:
// with equal parts, (p - 1) / p of the vector. Parts may differ in size and be empty; `vector` says
// where messages are divided.
//
// ring: p - 1 steps. A part begins at the rank after its owner and travels once around the ring.
// halving_doubling, tree: ceil(log2 p) steps for any p. Each part is summed up a binomial tree to
// its owner. In step k a rank sends to the rank 2^k before it all parts in whose trees that rank is
// its parent: about half of the vector, then a quarter, and so on, as in recursive halving.
// direct: one step. Every rank sends each part to its owner, which adds up the parts of all ranks.
MessagePlan plan_reduce_scatter(AllreduceAlgorithm algorithm, const VectorPieces& vector,
                                const Parts& parts, int rank);

// The sums of shards (shard_tree.hpp) among p ranks, each with its arrays sources.of_group[rank].
// Rank r adds up parts[r] (empty: none), for itself alone, and its part of `vector`, for all.
// Others send each of their arrays for these elements directly to it, and it sends what is for all
// to the others. With one array a rank that is the volume of a ring.
MessagePlan plan_shard_sums(const VectorPieces& vector, const Parts& parts,
                            const ShardSources& sources, int rank);

// Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009. The vector is divided into one block per rank. In the first p - 1 steps (reduce-scatter)
// each rank sends a block to the next rank and adds the one that comes from the previous rank to
// its own, which it sends in the following step. In the next p - 1 steps (allgather) the finished
// blocks are passed on. A rank sends 2 (p - 1) / p of the vector.
MessagePlan plan_ring(const VectorPieces& vector, int rank, int ranks);

// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 2005. In log2(p) steps each rank exchanges half of what it still has to sum with the rank
// at distance p / 2, p / 4, ..., 1; then the sums travel back the same way. If p is not a power of
// two, neighbours in pairs first sum one half of the vector each, and the first of each pair
// continues with both halves.
MessagePlan plan_halving_doubling(const VectorPieces& vector, int rank, int ranks);

// A binomial tree with rank 0 at its root. Sums go up and results down, chunk by chunk, both at the
// same time.
MessagePlan plan_tree(const VectorPieces& vector, int rank, int ranks);

// Every rank sends its values to all others, and adds up all ranks' values in the order of ranks.
MessagePlan plan_direct(const VectorPieces& vector, int rank, int ranks);

}  // namespace tasuki
