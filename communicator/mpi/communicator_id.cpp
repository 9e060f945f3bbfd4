#include "communicator/mpi/communicator_id.hpp"

#include <algorithm>
#include <atomic>

#include "communicator/mpi/mpi.hpp"
#include "communicator/registry.hpp"

namespace tasuki {
namespace {

// Fields of an id: the kind's place in the registry + 1, the first rank's count of communicators,
// and that rank's number in the job.
constexpr int bits_of_kind = 8, bits_of_count = 24;

}  // namespace

std::uint64_t make_communicator_id(std::string_view name, MPI_Comm comm) {
  static std::atomic<std::uint64_t> count = 0;
  const auto& kinds = communicator_kinds();
  const auto kind =
      std::ranges::find(kinds, name, [](const CommunicatorKind& known) { return known.name; });
  int world_rank = 0;
  TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &world_rank);
  std::uint64_t id = (static_cast<std::uint64_t>(world_rank) << (bits_of_kind + bits_of_count)) |
                     (++count % (1U << bits_of_count) << bits_of_kind) |
                     static_cast<std::uint64_t>(kind - kinds.begin() + 1);
  TASUKI_MPI(MPI_Bcast, &id, 1, MPI_UINT64_T, 0, comm);
  return id;
}

std::string communicator_of_id(std::uint64_t id) {
  const std::size_t kind = id % (1U << bits_of_kind);
  const auto& kinds = communicator_kinds();
  return kind == 0 || kind > kinds.size() ? "" : kinds[kind - 1].name;
}

}  // namespace tasuki
