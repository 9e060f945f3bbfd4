#include "communicator/mpi/ranks.hpp"

#include <exception>
#include <numeric>
#include <utility>

#include "core/environment.hpp"

namespace tasuki {

MPI_Comm mpi_ranks(const CommunicatorSetup& setup) {
  return setup.ranks != nullptr ? setup.ranks->get() : MPI_COMM_WORLD;
}

Topology discover_topology(MPI_Comm comm) {
  const MpiComm node = MpiComm::split_by_memory(comm);
  int rank = 0, size = 0;
  TASUKI_MPI(MPI_Comm_rank, comm, &rank);
  TASUKI_MPI(MPI_Comm_size, comm, &size);
  int group = rank;  // the node's smallest rank
  TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &group, 1, MPI_INT, MPI_MIN, node.get());
  std::vector<int> groups(static_cast<std::size_t>(size));
  TASUKI_MPI(MPI_Allgather, &group, 1, MPI_INT, groups.data(), 1, MPI_INT, comm);

  constexpr int longest = 256;
  std::string own = host_name();
  own.resize(longest);
  std::string names(groups.size() * longest, '\0');
  TASUKI_MPI(MPI_Allgather, own.data(), longest, MPI_CHAR, names.data(), longest, MPI_CHAR, comm);
  std::vector<std::string> hosts;
  for (std::size_t other = 0; other < groups.size(); ++other)
    hosts.emplace_back(names.c_str() + other * longest);
  Topology topology = make_topology(rank, groups, hosts);
  topology.shared_error_scope = scope_of_shared_error(comm);
  return topology;
}

std::vector<int> world_ranks_of(MPI_Comm comm) {
  MPI_Group own = MPI_GROUP_NULL, job = MPI_GROUP_NULL;
  TASUKI_MPI(MPI_Comm_group, comm, &own);
  TASUKI_MPI(MPI_Comm_group, MPI_COMM_WORLD, &job);
  int size = 0;
  TASUKI_MPI(MPI_Group_size, own, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), numbers(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  TASUKI_MPI(MPI_Group_translate_ranks, own, size, ranks.data(), job, numbers.data());
  TASUKI_MPI(MPI_Group_free, &own);
  TASUKI_MPI(MPI_Group_free, &job);
  return numbers;
}

Communicator::Handles::Handles(MPI_Comm ranks)
    : collectives(MpiComm::duplicate(ranks)),
      messages(MpiComm::duplicate(collectives.get())),
      users(MpiComm::duplicate(collectives.get())),
      job_ranks(world_ranks_of(ranks)) {}

MPI_Comm Communicator::Handles::add(MpiComm part) {
  return parts.emplace_back(std::move(part)).get();
}

Communicator::Handles::~Handles() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return;
  if (std::uncaught_exceptions() > 0)
    departures.announce("an exception ended its use of a communicator");
  departures.look_last();
  if (!departures.is_over()) return;
  for (MpiComm* const each : {&collectives, &messages, &users}) each->keep();
  for (MpiComm& part : parts) part.keep();
}

}  // namespace tasuki
