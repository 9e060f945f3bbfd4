#include "tasuki/communicator/mpi/ring_allreduce.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/core/cast.hpp"
#include "tasuki/core/error.hpp"
#include "tasuki/core/polite_wait.hpp"
#include "tasuki/tensor/cpu/reduce.hpp"

namespace tasuki {
namespace {

// Messages in flight in each direction.
constexpr std::int64_t window = 8;

class Ring {
 public:
  Ring(std::byte* values, const RingPlan& plan, DType type, ReduceOp op, MPI_Comm comm,
       const ChunkFunction& prepare, const ChunkFunction& finished)
      : values_(values),
        plan_(plan),
        type_(type),
        op_(op),
        comm_(comm),
        prepare_(prepare),
        finished_(finished),
        need_(plan.order_of_need()),
        incoming_(static_cast<std::size_t>(window * plan.longest_chunk()) * size_of(type)) {
    int rank = 0;
    TASUKI_MPI(MPI_Comm_rank, comm, &rank);
    next_ = (rank + 1) % plan.ranks();
    previous_ = (rank + plan.ranks() - 1) % plan.ranks();
    sends_.fill(MPI_REQUEST_NULL);
    receives_.fill(MPI_REQUEST_NULL);
  }
  // Requests are left only after an error.
  ~Ring() {
    for (auto* requests : {&sends_, &receives_}) {
      for (MPI_Request& request : *requests) {
        if (request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void run() {
    PoliteWait waiting;
    while (received_ < plan_.messages() || sent_ < plan_.messages()) {
      bool moved = post_receives();
      moved |= post_sends();
      moved |= complete_receive();
      moved |= complete_send();
      if (moved) {
        waiting = {};
        report_progress();
      } else if (!prepare_ahead()) {
        waiting.pause();
      }
    }
  }

 private:
  std::byte* at(Range range) const {
    return values_ + range.begin * static_cast<std::int64_t>(size_of(type_));
  }
  int bytes(Range range) const {
    return checked_cast<int>(range.size() * static_cast<std::int64_t>(size_of(type_)), "a chunk");
  }
  // Where message `number` arrives: in a buffer beside the values that it is added to, or in its
  // final place.
  std::byte* destination(std::int64_t number) {
    if (!plan_.is_added(number)) return at(plan_.received(number));
    const std::int64_t slot = number % window * plan_.longest_chunk();
    return incoming_.data() + slot * static_cast<std::int64_t>(size_of(type_));
  }
  static std::size_t slot(std::int64_t number) { return static_cast<std::size_t>(number % window); }

  bool post_receives() {
    bool posted = false;
    for (; receives_posted_ < plan_.messages() && receives_posted_ < received_ + window;
         ++receives_posted_, posted = true) {
      // A final block replaces one that was sent p - 1 steps before, so that send must be complete.
      const std::int64_t block_before = (plan_.ranks() - 1) * plan_.chunks_per_block();
      if (!plan_.is_added(receives_posted_) && sent_ <= receives_posted_ - block_before) break;
      TASUKI_MPI(MPI_Irecv, destination(receives_posted_), bytes(plan_.received(receives_posted_)),
                 MPI_BYTE, previous_, tag, comm_, &receives_[slot(receives_posted_)]);
    }
    return posted;
  }

  bool post_sends() {
    bool posted = false;
    for (; sends_posted_ < plan_.messages() && sends_posted_ < sent_ + window;
         ++sends_posted_, posted = true) {
      const std::int64_t from = sends_posted_ - plan_.chunks_per_block();
      if (from >= received_) break;  // the chunk to pass on has not arrived yet
      const Range range = plan_.sent(sends_posted_);
      if (from < 0) prepare_up_to(plan_.need_of_sent(sends_posted_));
      TASUKI_MPI(MPI_Isend, at(range), bytes(range), MPI_BYTE, next_, tag, comm_,
                 &sends_[slot(sends_posted_)]);
    }
    return posted;
  }

  bool complete_receive() {
    if (received_ == receives_posted_ || !is_done(receives_[slot(received_)])) return false;
    const Range range = plan_.received(received_);
    if (plan_.is_added(received_)) {
      prepare_up_to(plan_.need_of_received(received_));
      const std::array<const void*, 2> sources{destination(received_), at(range)};
      const std::array<void*, 1> results{at(range)};
      reduce_arrays(type_, op_, sources, results, range.size());
    }
    if (plan_.is_final(received_)) finished_(range);
    ++received_;
    return true;
  }

  bool complete_send() {
    if (sent_ == sends_posted_ || !is_done(sends_[slot(sent_)])) return false;
    ++sent_;
    return true;
  }

  static bool is_done(MPI_Request& request) {
    int done = 0;
    TASUKI_MPI(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  bool prepare_ahead() {
    if (prepared_ == need_.size()) return false;
    prepare_(need_[prepared_++]);
    return true;
  }
  void prepare_up_to(std::int64_t place) {
    while (std::cmp_less_equal(prepared_, place)) prepare_ahead();
  }

  static constexpr int tag = 3;

  std::byte* values_;
  const RingPlan& plan_;
  DType type_;
  ReduceOp op_;
  MPI_Comm comm_;
  const ChunkFunction& prepare_;
  const ChunkFunction& finished_;
  int next_ = 0, previous_ = 0;

  std::vector<Range> need_;
  std::size_t prepared_ = 0;
  std::vector<std::byte> incoming_;
  std::array<MPI_Request, window> sends_, receives_;
  // Numbers of messages posted and completed.
  std::int64_t sends_posted_ = 0, sent_ = 0, receives_posted_ = 0, received_ = 0;
};

}  // namespace

RingPlan::RingPlan(std::int64_t count, std::size_t element_bytes, int rank, int ranks,
                   std::int64_t chunk_bytes)
    : count_(count),
      line_(static_cast<std::int64_t>(64 / element_bytes)),
      rank_(rank),
      ranks_(ranks) {
  TASUKI_CHECK(ranks >= 2 && rank >= 0 && rank < ranks, "a ring plan for rank {} of {}", rank,
               ranks);
  const std::int64_t lines = (count_ + line_ - 1) / line_;
  const std::int64_t longest_block = (lines + ranks_ - 1) / ranks_;
  const std::int64_t lines_per_chunk = std::max<std::int64_t>(1, chunk_bytes / 64);
  chunks_ = std::max<std::int64_t>(1, (longest_block + lines_per_chunk - 1) / lines_per_chunk);
  longest_chunk_ = ((longest_block + chunks_ - 1) / chunks_) * line_;
}

Range RingPlan::chunk(std::int64_t block, std::int64_t message) const {
  block = (block % ranks_ + ranks_) % ranks_;
  const std::int64_t lines = (count_ + line_ - 1) / line_;
  const std::int64_t first = lines * block / ranks_, last = lines * (block + 1) / ranks_;
  const std::int64_t part = message % chunks_;
  const auto place = [&](std::int64_t index) {
    return std::min(count_, (first + (last - first) * index / chunks_) * line_);
  };
  return {place(part), place(part + 1)};
}

std::vector<Range> RingPlan::order_of_need() const {
  std::vector<Range> order;
  for (std::int64_t message = 0; message < messages() && is_added(message); ++message) {
    if (message < chunks_) order.push_back(sent(message));
    order.push_back(received(message));
  }
  return order;
}

std::vector<Range> RingPlan::order_of_completion() const {
  std::vector<Range> order;
  for (std::int64_t message = 0; message < messages(); ++message)
    if (is_final(message)) order.push_back(received(message));
  return order;
}

void ring_allreduce(void* values, const RingPlan& plan, DType type, ReduceOp op, MPI_Comm comm,
                    const ChunkFunction& prepare, const ChunkFunction& finished) {
  Ring(static_cast<std::byte*>(values), plan, type, op, comm, prepare, finished).run();
}

}  // namespace tasuki
