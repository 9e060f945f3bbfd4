#include "parallel/chain_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace tasuki {
namespace {

// A message, or a value that a rank keeps for a later component.
struct Step {
  int component;
  bool is_send;
  int peer;
};

// Where a rank is.
class Walk {
 public:
  Walk(int rank, const ChainPlan& plan) : rank_(rank) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      for (const int peer : plan[i].in) steps_.push_back({static_cast<int>(i), false, peer});
      for (const int peer : plan[i].out) steps_.push_back({static_cast<int>(i), true, peer});
    }
  }
  bool is_over() const { return next_ == steps_.size(); }
  const Step& step() const { return steps_[next_]; }
  void advance() { ++next_; }
  // Makes all steps that need no other rank. Returns whether there were any.
  bool keep_and_take() {
    bool has_moved = false;
    for (; !is_over() && step().peer == rank_; advance()) {
      if (!step().is_send && kept_ == 0) break;
      kept_ += step().is_send ? 1 : -1;
      has_moved = true;
    }
    return has_moved;
  }
  int kept() const { return kept_; }
  std::string text() const {
    if (is_over()) return fmt::format("rank {} has come to its end", rank_);
    const auto& [component, is_send, peer] = step();
    if (peer == rank_)
      return fmt::format("component {} of rank {} takes a value that none before has kept for it",
                         component, rank_);
    return fmt::format("component {} of rank {} waits to {} rank {}", component, rank_,
                       is_send ? "send to" : "receive from", peer);
  }

 private:
  int rank_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  int kept_ = 0;
};

// As in a call of add_link(): "{.in = {0}, .out = {2}}".
std::string text_of(const LinkRanks& ranks) {
  const auto braced = [](const std::vector<int>& numbers) {
    return fmt::format("{{{}}}", fmt::join(numbers, ", "));
  };
  return fmt::format("{{.in = {}, .out = {}}}", braced(ranks.in), braced(ranks.out));
}

}  // namespace

std::optional<std::string> find_deadlock(const std::vector<ChainPlan>& plans) {
  std::vector<Walk> walks;
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    walks.emplace_back(static_cast<int>(rank), plans[rank]);
  const auto peer_of = [&](const Walk& walk) -> Walk& {
    return walks[static_cast<std::size_t>(walk.step().peer)];
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < walks.size(); ++rank) {
      Walk& walk = walks[rank];
      has_moved = walk.keep_and_take() || has_moved;
      if (walk.is_over() || !walk.step().is_send) continue;
      Walk& peer = peer_of(walk);
      if (&peer == &walk || peer.is_over() || peer.step().is_send ||
          peer.step().peer != static_cast<int>(rank))
        continue;
      walk.advance();
      peer.advance();
      has_moved = true;
    }
  }
  for (const Walk& walk : walks) {
    if (walk.is_over()) continue;
    Walk& peer = peer_of(walk);
    return &peer == &walk ? walk.text() : fmt::format("{}; {}", walk.text(), peer.text());
  }
  for (std::size_t rank = 0; rank < walks.size(); ++rank)
    if (walks[rank].kept() > 0)
      return fmt::format("rank {} keeps a value that none of its components takes", rank);
  return std::nullopt;
}

std::optional<std::string> why_no_line(const std::vector<ChainPlan>& plans) {
  const int last = static_cast<int>(plans.size()) - 1;
  for (int rank = 0; rank <= last; ++rank) {
    const ChainPlan& plan = plans[static_cast<std::size_t>(rank)];
    if (plan.size() != 1)
      return fmt::format("expected one component on each rank, found {} on rank {}", plan.size(),
                         rank);
    const std::vector<int> in = rank > 0 ? std::vector{rank - 1} : std::vector<int>();
    const std::vector<int> out = rank < last ? std::vector{rank + 1} : std::vector<int>();
    if (plan[0].in != in || plan[0].out != out)
      return fmt::format("expected {} on rank {}, found {}", text_of({in, out}), rank,
                         text_of(plan[0]));
  }
  return std::nullopt;
}

}  // namespace tasuki
