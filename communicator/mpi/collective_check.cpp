#include "communicator/mpi/collective_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/environment.hpp"
#include "core/hash.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace {

constexpr const char* variable = "TASUKI_CHECK_COLLECTIVES";

// The text of every rank.
std::vector<std::string> texts_of_all(const std::string& text, MPI_Comm comm, std::size_t ranks) {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(ranks), begins(ranks);
  TASUKI_MPI(MPI_Allgather, &length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm);
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::string all(static_cast<std::size_t>(begins.back() + lengths.back()), '\0');
  TASUKI_MPI(MPI_Allgatherv, text.data(), length, MPI_CHAR, all.data(), lengths.data(),
             begins.data(), MPI_CHAR, comm);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(static_cast<std::size_t>(begins[rank]),
                               static_cast<std::size_t>(lengths[rank])));
  return texts;
}

}  // namespace

std::unique_ptr<CollectiveCheck> CollectiveCheck::make(
    const std::string& name, MPI_Comm comm, const Topology& topology,
    const std::function<MPI_Comm(MpiComm)>& keep) {
  int is_on = is_switched_on(variable) ? 1 : 0;
  if (topology.size == 1) return nullptr;
  // mpirun does not bring variables to other hosts.
  TASUKI_MPI(MPI_Bcast, &is_on, 1, MPI_INT, 0, comm);
  if (is_on == 0) return nullptr;
  return std::unique_ptr<CollectiveCheck>(
      new CollectiveCheck(name, keep(MpiComm::duplicate(comm)), topology));
}

CollectiveCheck::CollectiveCheck(const std::string& name, MPI_Comm comm, const Topology& topology)
    : name_(name), comm_(comm), topology_(topology) {}

void CollectiveCheck::compare(const std::string& operation) {
  ++number_;
  // All hashes are equal if the largest and the smallest are.
  const auto hash = static_cast<std::int64_t>(hash_text(operation) >> 1);
  std::int64_t extremes[] = {hash, -hash};
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, extremes, 2, MPI_INT64_T, MPI_MAX, comm_);
  if (extremes[0] != -extremes[1]) fail_with(operation);
}

void CollectiveCheck::fail_with(const std::string& operation) const {
  const auto texts = texts_of_all(operation, comm_, static_cast<std::size_t>(topology_.size));
  std::map<std::string, int> callers;
  for (const std::string& text : texts) ++callers[text];
  const auto [most_common, count] =
      *std::ranges::max_element(callers, {}, [](const auto& each) { return each.second; });
  const bool has_majority = 2 * count > topology_.size;

  constexpr std::size_t most_named = 4;
  std::vector<std::string> calls;
  for (std::size_t rank = 0; rank < texts.size() && calls.size() <= most_named; ++rank)
    if (!has_majority || texts[rank] != most_common)
      calls.push_back(
          calls.size() == most_named
              ? "..."
              : fmt::format("rank {} on {} calls {}", rank, topology_.host_of[rank], texts[rank]));
  throw Error(
      ErrorKind::disagreement,
      fmt::format(
          "operation {} of a communicator ({}): {}{}; all ranks must call the same "
          "operations in the same order",
          number_, name_, join(calls, ", "),
          has_majority ? fmt::format(" where the other {} call {}", count, most_common) : ""),
      topology_.shared_error_scope);
}

}  // namespace tasuki
