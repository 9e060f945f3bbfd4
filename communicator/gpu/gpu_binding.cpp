#include "communicator/gpu/gpu_binding.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"

namespace tasuki {
namespace {

constexpr std::size_t most_rows = 64;

class Binder {
 public:
  Binder(const Topology& topology, std::span<const std::vector<std::string>> visible,
         const GpuFlags& flags)
      : topology_(topology), visible_(visible), flags_(flags), of_rank_(visible.size()) {}

  GpuBinding run() {
    for (int node = 0; node < topology_.inter_size; ++node)
      bind_node(topology_.ranks_of_node(node));
    return {of_rank_, refusal()};
  }

 private:
  const std::vector<std::string>& seen_by(int rank) const {
    return visible_[static_cast<std::size_t>(rank)];
  }
  GpuChoice& choice(int rank) { return of_rank_[static_cast<std::size_t>(rank)]; }

  void bind_node(const std::vector<int>& ranks) {
    std::map<std::string, int> ranks_on;  // by GPU
    for (std::size_t place = 0; place < ranks.size(); ++place) {
      const auto& seen = seen_by(ranks[place]);
      GpuChoice& own = choice(ranks[place]);
      own.wanted = wanted_index(seen, static_cast<int>(place), ranks_on);
      if (own.wanted >= static_cast<int>(seen.size())) continue;
      const int before = ranks_on[seen[static_cast<std::size_t>(own.wanted)]]++;
      if (before == 0 || flags_.share) own.index = own.wanted;
    }
    for (const int rank : ranks)
      if (choice(rank).index >= 0)
        choice(rank).ranks_on_gpu =
            ranks_on[seen_by(rank)[static_cast<std::size_t>(choice(rank).index)]];
  }

  int wanted_index(const std::vector<std::string>& seen, int place,
                   const std::map<std::string, int>& ranks_on) const {
    if (flags_.number) return *flags_.number;
    if (flags_.share) return seen.empty() ? 0 : place % static_cast<int>(seen.size());
    const auto free = std::find_if(seen.begin(), seen.end(),
                                   [&](const std::string& id) { return !ranks_on.contains(id); });
    // If no GPU is free: the next index, as if the node had more of them.
    return free != seen.end() ? static_cast<int>(free - seen.begin())
                              : std::max(place, static_cast<int>(seen.size()));
  }

  std::string refusal() {
    const auto first = std::find_if(of_rank_.begin(), of_rank_.end(),
                                    [](const GpuChoice& one) { return one.index < 0; });
    if (first == of_rank_.end()) return "";
    const int rank = static_cast<int>(first - of_rank_.begin());
    return reason(rank) + table() + advice(rank);
  }

  std::string reason(int rank) {
    const auto place = static_cast<std::size_t>(rank);
    const std::string& host = topology_.host_of[place];
    const std::size_t ranks = topology_.ranks_of_node(topology_.node_of[place]).size();
    const std::size_t there = seen_by(rank).size();
    if (there == 0)
      return fmt::format("{}: rank {} sees no GPU on {}\n", flags_.asked_by, rank, host);
    if (!flags_.number)
      return fmt::format("{}: each rank needs a GPU, but {} has {} GPU(s) for its {} ranks\n",
                         flags_.asked_by, host, there, ranks);
    if (*flags_.number >= std::ssize(seen_by(rank)))
      return fmt::format("--gpu {}: rank {} sees {} GPU(s) on {}, numbered from 0\n",
                         *flags_.number, rank, there, host);
    return fmt::format("--gpu {} names one GPU, but {} has {} ranks\n", *flags_.number, host,
                       ranks);
  }

  std::string table() {
    std::size_t host = 4;
    for (const std::string& name : topology_.host_of) host = std::max(host, name.size());
    std::string text = fmt::format("{:>4}  {:<{}}  {:>12}  {:>10}  {:>10}\n", "rank", "host", host,
                                   "rank in node", "wanted GPU", "GPUs there");
    for (std::size_t rank = 0; rank < std::min(of_rank_.size(), most_rows); ++rank)
      text +=
          fmt::format("{:>4}  {:<{}}  {:>12}  {:>10}  {:>10}{}\n", rank, topology_.host_of[rank],
                      host, topology_.intra_rank_of[rank], of_rank_[rank].wanted,
                      visible_[rank].size(), of_rank_[rank].index < 0 ? "  not available" : "");
    if (of_rank_.size() > most_rows)
      text += fmt::format("      ... and {} more ranks\n", of_rank_.size() - most_rows);
    return text;
  }

  std::string advice(int rank) {
    if (seen_by(rank).empty())
      return fmt::format("check CUDA_VISIBLE_DEVICES and nvidia-smi there, or leave {} out",
                         flags_.asked_by);
    if (flags_.asked_by != "--gpu") return "start fewer ranks there, or leave it out";
    const std::string share = "--share-gpu puts several ranks on one GPU (slow, for tests)";
    if (!flags_.number) return "start fewer ranks there, or: " + share;
    if (*flags_.number >= std::ssize(seen_by(rank))) return "choose one of those";
    return "leave the number out (each rank then takes the GPU with its number in the node), or: " +
           share;
  }

  const Topology& topology_;
  std::span<const std::vector<std::string>> visible_;
  const GpuFlags& flags_;
  std::vector<GpuChoice> of_rank_;
};

}  // namespace

GpuBinding bind_gpus(const Topology& topology, std::span<const std::vector<std::string>> visible,
                     const GpuFlags& flags) {
  TASUKI_CHECK(std::ssize(visible) == topology.size, "GPUs of {} ranks for {} ranks",
               visible.size(), topology.size);
  return Binder(topology, visible, flags).run();
}

}  // namespace tasuki
