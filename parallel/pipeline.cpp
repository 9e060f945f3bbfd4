#include "parallel/pipeline.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "communicator/bytes.hpp"
#include "communicator/leave.hpp"
#include "communicator/number_bytes.hpp"
#include "communicator/send_queue.hpp"

namespace tasuki {
namespace {

// Throws an error that all ranks of the communicator meet.
template <class... Arguments>
[[noreturn]] void refuse_pipeline(const Communicator& communicator,
                                  fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::usage,
              "Pipeline: " + fmt::format(text, std::forward<Arguments>(arguments)...),
              communicator.topology().shared_error_scope);
}

void check_micro_batches(Communicator& communicator, std::int64_t micro_batches) {
  std::vector<std::int64_t> of_ranks;
  for (const Bytes& each : allgather_bytes(communicator, encode_numbers({&micro_batches, 1})))
    of_ranks.push_back(decode_numbers(each).at(0));
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] != of_ranks[0])
      refuse_pipeline(communicator,
                      "expected one number of micro-batches on all ranks, found {} on rank 0 and "
                      "{} on rank {}",
                      of_ranks[0], of_ranks[rank], rank);
  }
  if (micro_batches < 1)
    refuse_pipeline(communicator, "expected at least 1 micro-batch, found {}", micro_batches);
}

// Has the messages of a chain sent by a queue while it exists.
class SentByQueue {
 public:
  SentByQueue(SendQueue*& place, SendQueue& queue) : place_(place) { place_ = &queue; }
  ~SentByQueue() { place_ = nullptr; }
  SentByQueue(const SentByQueue&) = delete;
  SentByQueue& operator=(const SentByQueue&) = delete;

 private:
  SendQueue*& place_;
};

}  // namespace

std::vector<PipelinePass> one_forward_one_backward(int stage, int stages,
                                                   std::int64_t micro_batches) {
  TASUKI_CHECK(0 <= stage && stage < stages && micro_batches >= 1,
               "stage {} of {} with {} micro-batches", stage, stages, micro_batches);
  const std::int64_t first = std::min<std::int64_t>(stages - stage - 1, micro_batches);
  std::vector<PipelinePass> passes;
  for (std::int64_t i = 0; i < first; ++i) passes.push_back({i, false});
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    if (i + first < micro_batches) passes.push_back({i + first, false});
    passes.push_back({i, true});
  }
  return passes;
}

Pipeline::Pipeline(MultiNodeChainList& chain, std::int64_t micro_batches)
    : chain_(chain), micro_batches_(micro_batches) {
  if (const auto reason = why_no_line(chain.plans_of_all()))
    refuse_pipeline(chain.communicator_, "the components do not lie in a line: {}", *reason);
  check_micro_batches(chain.communicator_, micro_batches);
  chain.check_plans();  // no component can be added from now on
}

int Pipeline::stages() const {
  return chain_.communicator_.size();
}

int Pipeline::stage() const {
  return chain_.communicator_.rank();
}

void Pipeline::run(const Forward& forward, const Backward& backward) {
  Communicator& communicator = chain_.communicator_;
  try {
    SendQueue sends(communicator);
    const SentByQueue scope(chain_.sends_, sends);
    std::deque<Variable> in_flight;
    for (const auto& [micro_batch, is_backward] :
         one_forward_one_backward(stage(), stages(), micro_batches_)) {
      if (!is_backward) {
        in_flight.push_back(forward(micro_batch));
        continue;
      }
      const Variable loss = std::move(in_flight.front());
      in_flight.pop_front();
      backward(micro_batch, loss);
    }
    sends.wait();
  } catch (...) {
    leave_after_error(communicator);
    throw;
  }
}

}  // namespace tasuki
