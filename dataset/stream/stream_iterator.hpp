// StreamIterator: batches of examples that arrive while the training goes on.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/iterators/iterator.hpp"
#include "dataset/stream/example_buffer.hpp"

namespace tasuki {

enum class StreamOrder : std::uint8_t {
  // A batch is a random choice among all examples that are held, without repetitions within a
  // batch. next() does not wait for new ones, so examples come again if training is faster than
  // the program that makes them.
  random,
  // Each example once, in order of arrival; next() waits for the examples of a batch. While the
  // buffer is full of unused examples, no more are taken in, so that senders have to wait or to
  // drop new ones (StreamSenderOptions::waits); only add() replaces the oldest.
  arrival,
};

struct StreamOptions {
  std::int64_t batch_size = 1;  // of each rank that trains
  // The examples that each of these ranks holds at most, besides a message. In random order they
  // are the newest ones: a new one replaces the oldest, which is dropped if it was in no batch.
  std::int64_t capacity = 4096;
  StreamOrder order = StreamOrder::random;
  // Random order: examples that must be held before the first batch; 0: batch_size.
  std::int64_t least = 0;
  // Random order: next() waits while an arrived example has been used so often on average; 0:
  // never.
  double most_uses = 0;
  // An epoch, for triggers and reports, is so many steps.
  std::int64_t steps_per_epoch = 100;
  std::uint64_t seed = 0;  // of the random order
};

// Examples come from ranks with a StreamSender, or from this process (add()). next() and poll()
// take in what has arrived, without threads, so MPI_THREAD_FUNNELED is enough.
//
// Order: which examples are held is a function of the order in which they arrived. Given that, the
// batches are a function of (seed, epoch, step). Arrival depends on timing, so two runs differ. A
// batch's ids are arrival numbers on this rank. What was dropped and repeated is counted.
class StreamIterator final : public Iterator {
 public:
  // Collective over `comm` (see StreamSender): the ranks that train make this object. Usage errors:
  // options that are not positive, or a batch that does not fit into the buffer.
  StreamIterator(MPI_Comm comm, std::vector<Field> fields, const StreamOptions& options);
  // Tells the senders that no more examples are wanted, and waits until each of them has noticed:
  // that is in its next call of send() or is_open(), or at its destruction. So a training that ends
  // with an exception does not stop the program that sends.
  ~StreamIterator() override;
  StreamIterator(const StreamIterator&) = delete;
  StreamIterator& operator=(const StreamIterator&) = delete;

  // Takes in what has arrived; never waits. Call it now and then during work that takes longer than
  // the senders' windows last.
  void poll();
  // Adds examples that this process has made, without a message.
  void add(const Dataset& examples);
  // For streams without senders: no more examples follow.
  void finish() { is_finished_ = true; }
  // False once all senders have said farewell (without senders: after finish()) and, in order of
  // arrival, all examples were used, on all ranks that train. The same on all of these, over which
  // it is collective. Batches of random order may still be taken then.
  bool is_open();

  // Waits for examples as the order says. When no more can come, a batch has fewer examples, or
  // none. The number of examples on all ranks is not known (Batch::global_size). A stream without
  // senders that lacks examples is a usage error: no rank could add any meanwhile.
  Batch next() override;

  std::int64_t steps_per_epoch() const override { return options_.steps_per_epoch; }
  EpochLayout layout() const override;
  IteratorState state() const override { return state_; }
  // Sets the position, which counts steps. The examples are not part of it: a resumed training goes
  // on with those that arrive then.
  void restore(const IteratorState& state) override;

  StreamCounts counts() const;
  std::int64_t held() const { return buffer_.held(); }

 private:
  struct Connection;
  struct Sender;

  bool can_get_more() const;
  bool is_ready() const;
  void wait_until_ready();
  void take_in(Sender& sender);
  void take_in_what_fits();
  // Examples that may be added now.
  std::int64_t room() const;
  void send_news(Sender& sender, std::int64_t news);
  void farewell();

  StreamOptions options_;
  ExampleBuffer buffer_;
  std::unique_ptr<Connection> connection_;
  bool is_finished_ = false;  // finish()
  bool is_ending_ = false;    // in the destructor
  IteratorState state_;
};

}  // namespace tasuki
