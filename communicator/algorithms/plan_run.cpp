#include "communicator/algorithms/plan_run.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/polite_wait.hpp"
#include "tensor/reduce.hpp"

namespace tasuki {
namespace {

// Messages under way in each direction.
constexpr std::int64_t window = 8;
constexpr int tag = 3;

// The largest number of messages whose values are kept at a time: those under way, and those held.
std::int64_t most_kept(const MessagePlan& plan) {
  std::int64_t most = 0, held = 0;
  for (const Message& message : plan.receives) {
    held = message.arrival == Arrival::held ? held + 1 : 0;
    most = std::max(most, held);
    if (message.is_final) held = 0;
  }
  return std::min(most + window, std::ssize(plan.receives));
}

}  // namespace

MPI_Request& PlanRun::Line::request(std::int64_t i) {
  return requests[static_cast<std::size_t>(i % window)];
}

bool PlanRun::Line::has_arrived() {
  if (completed == started) return false;
  int done = 0;
  TASUKI_MPI(MPI_Test, &request(completed), &done, MPI_STATUS_IGNORE);
  return done != 0;
}

PlanRun::PlanRun(void* values, DType type, ReduceOp op, const MessagePlan& plan, MPI_Comm comm,
                 PieceWork work, const Wire& wire)
    : values_(static_cast<std::byte*>(values)),
      type_(type),
      op_(op),
      plan_(plan),
      comm_(comm),
      work_(std::move(work)),
      sends_{plan.sends},
      receives_{plan.receives},
      arrivals_(most_kept(plan)) {
  if (wire.is_rounded() && type == DType::float32 && op == ReduceOp::sum)
    rounded_.emplace(static_cast<float*>(values), wire);
  TASUKI_CHECK(!plan.tree || (type == DType::float32 && op == ReduceOp::sum && !rounded_),
               "sums of shards are sums of float32 that travel as they are");
  // Rooms begin at a cache line.
  room_bytes_ = (longest_message() + 63) / 64 * 64;
  const std::int64_t rooms = arrivals_ + (rounded_ ? window + 1 : 0);
  rooms_ =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(rooms * room_bytes_));
  TASUKI_MPI(MPI_Comm_rank, comm, &rank_);
  sends_.requests.assign(window, MPI_REQUEST_NULL);
  receives_.requests.assign(window, MPI_REQUEST_NULL);
}

PlanRun::~PlanRun() {
  for (Line* line : {&sends_, &receives_}) {
    for (MPI_Request& request : line->requests) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }
}

bool PlanRun::is_done() const {
  return sends_.is_done() && receives_.is_done() && prepared_ == plan_.need.size();
}

bool PlanRun::advance() {
  bool moved = start_receives();
  moved |= start_sends();
  moved |= complete_receive();
  moved |= complete_send();
  // With nothing else to do, the next piece is prepared ahead.
  if (!moved && prepared_ < plan_.need.size())
    moved = prepare_up_to(static_cast<std::int64_t>(prepared_) + 1);
  if (moved) report_progress();
  return moved;
}

void PlanRun::finish() {
  PoliteWait waiting;
  while (!is_done()) {
    if (advance())
      waiting = {};
    else
      waiting.pause();
  }
}

std::byte* PlanRun::place_of(Range range, std::size_t array) const {
  const std::int64_t first = plan_.tree ? static_cast<std::int64_t>(array) * plan_.tree->stride : 0;
  return values_ + (first + range.begin) * static_cast<std::int64_t>(size_of(type_));
}

std::int64_t PlanRun::bytes_of(Range range) const {
  return rounded_ ? rounded_->bytes_of(range)
                  : range.size() * static_cast<std::int64_t>(size_of(type_));
}

std::int64_t PlanRun::longest_message() const {
  std::int64_t longest = 0;
  for (const auto* list : {&plan_.sends, &plan_.receives})
    for (const Message& message : *list) longest = std::max(longest, bytes_of(message.range));
  return longest;
}

std::byte* PlanRun::room(std::int64_t number) const {
  return rooms_.get() + number * room_bytes_;
}

bool PlanRun::arrives_in_place(const Message& message) const {
  return message.arrival == Arrival::replacing && !rounded_;
}

std::byte* PlanRun::place_of_arrival(std::int64_t receive) const {
  const Message& message = receives_.at(receive);
  return arrives_in_place(message) ? place_of(message.range) : room(receive % arrivals_);
}

const std::byte* PlanRun::values_to_send(std::int64_t send) {
  const Message& message = sends_.at(send);
  if (!rounded_) return place_of(message.range, message.array);
  std::byte* const leaving = room(arrivals_ + send % window);
  rounded_->round(message.range, leaving);
  return leaving;
}

bool PlanRun::prepare_up_to(std::int64_t pieces) {
  while (std::cmp_less(prepared_, pieces)) {
    if (work_.prepare && !work_.prepare(plan_.need[prepared_])) return false;
    if (rounded_) rounded_->restore(plan_.need[prepared_]);
    ++prepared_;
  }
  return true;
}

bool PlanRun::start_receives() {
  const std::int64_t before = receives_.started;
  for (; receives_.started < std::ssize(receives_.messages) &&
         receives_.started < receives_.completed + window;
       ++receives_.started) {
    const Message& message = receives_.at(receives_.started);
    // Such a message overwrites this rank's values on arrival; others arrive in a buffer.
    if (arrives_in_place(message) &&
        (sends_.completed < message.after || !prepare_up_to(message.pieces)))
      break;
    TASUKI_MPI(MPI_Irecv, place_of_arrival(receives_.started), length_of(message), MPI_BYTE,
               message.peer, tag, comm_, &receives_.request(receives_.started));
  }
  return receives_.started > before;
}

bool PlanRun::start_sends() {
  const std::int64_t before = sends_.started;
  for (; sends_.started < std::ssize(sends_.messages) && sends_.started < sends_.completed + window;
       ++sends_.started) {
    const Message& message = sends_.at(sends_.started);
    if (receives_.completed < message.after || !prepare_up_to(message.pieces)) break;
    TASUKI_MPI(MPI_Isend, values_to_send(sends_.started), length_of(message), MPI_BYTE,
               message.peer, tag, comm_, &sends_.request(sends_.started));
  }
  return sends_.started > before;
}

bool PlanRun::complete_receive() {
  if (receives_.completed == receives_.started) return false;
  const Message& message = receives_.at(receives_.completed);
  if (sends_.completed < message.after || !prepare_up_to(message.pieces) ||
      !receives_.has_arrived())
    return false;
  combine(message, place_of_arrival(receives_.completed));
  ++receives_.completed;
  if (message.is_final && work_.finished) work_.finished(message.range);
  return true;
}

void PlanRun::combine(const Message& message, std::byte* arrived) {
  if (rounded_) return combine_rounded(message, arrived);
  std::byte* const own = place_of(message.range);
  const std::array<void*, 1> results{own};
  if (message.arrival == Arrival::added) {
    const std::array<const void*, 2> sources{arrived, own};
    reduce_arrays(type_, op_, sources, results, message.range.size());
  } else if (message.arrival == Arrival::held) {
    if (plan_.tree) {
      held_.push_back({message.place, arrived});
      return message.is_final ? add_in_tree(*plan_.tree, message.range) : void();
    }
    held_.push_back({static_cast<std::size_t>(message.peer), arrived});
    if (!message.is_final) return;
    held_.push_back({static_cast<std::size_t>(rank_), own});
    std::ranges::sort(held_, {}, &Held::place);
    std::vector<const void*> sources;
    for (const Held& each : held_) sources.push_back(each.values);
    reduce_arrays(type_, op_, sources, results, message.range.size());
    held_.clear();
  }
}

void PlanRun::add_in_tree(const TreeOfMessages& tree, Range range) {
  for (std::size_t array = 0; array < tree.places.size(); ++array)
    held_.push_back({tree.places[array], place_of(range, array)});
  std::ranges::sort(held_, {}, &Held::place);
  std::vector<const float*> sources;
  for (const Held& each : held_) sources.push_back(reinterpret_cast<const float*>(each.values));
  const std::array<std::vector<float*>, 1> result{{{reinterpret_cast<float*>(place_of(range))}}};
  sum_in_tree(sources, tree.merges, result, range.size());
  held_.clear();
}

// If other ranks get the sum, too, this rank rounds its copy as it is rounded on the way to them,
// or adds the same rounded values as they do (held). A sum for this rank alone is not rounded, and
// neither are this rank's values in it.
void PlanRun::combine_rounded(const Message& message, std::byte* arrived) {
  if (message.arrival == Arrival::replacing) {
    rounded_->replace(message.range, arrived);
  } else if (message.arrival == Arrival::added) {
    rounded_->add(message.range, arrived);
    if (message.is_final && message.is_common) rounded_->round(message.range, nullptr);
  } else {
    held_.push_back({static_cast<std::size_t>(message.peer), arrived});
    if (!message.is_final) return;
    if (!message.is_common) {
      std::ranges::sort(held_, {}, &Held::place);
      for (const Held& each : held_) rounded_->add(message.range, each.values);
      return held_.clear();
    }
    std::byte* const own = room(arrivals_ + window);
    rounded_->round(message.range, own);
    held_.push_back({static_cast<std::size_t>(rank_), own});
    std::ranges::sort(held_, {}, &Held::place);
    rounded_->replace(message.range, held_.front().values);
    for (const Held& each : std::span(held_).subspan(1)) rounded_->add(message.range, each.values);
    held_.clear();
  }
}

bool PlanRun::complete_send() {
  if (!sends_.has_arrived()) return false;
  ++sends_.completed;
  return true;
}

int PlanRun::length_of(const Message& message) const {
  return checked_cast<int>(bytes_of(message.range), "a message");
}

}  // namespace tasuki
