// StreamSender: the end of a stream where examples are made. The other end is a StreamIterator.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/dataset.hpp"

namespace tasuki {

struct StreamSenderOptions {
  // Examples on their way to each rank that trains and gets examples from this one; each has a copy
  // in this rank's memory.
  std::int64_t window = 1024;
  // If there is no room on the way: true waits until there is, which holds up the program; false
  // drops the new examples. A receiver in random order may drop examples in both cases.
  bool waits = false;
};

// For ranks that make examples and do not train. Makes no MPI call outside its members, so
// MPI_THREAD_FUNNELED is enough; messages move on while the program is inside these members, or in
// any other call of MPI.
class StreamSender {
 public:
  // Collective over `comm`: each of its ranks makes a StreamSender or a StreamIterator (together
  // with the others' at the same place in the program) with the same fields, of fixed sizes. The
  // communicator is duplicated. Each rank sends to one rank that trains, or to several in turn
  // (receivers_of in stream_ends.hpp).
  StreamSender(MPI_Comm comm, std::vector<Field> fields, const StreamSenderOptions& options = {});
  // Says farewell, and waits until the ranks that train have answered: that is in their next call
  // of StreamIterator's next() or poll(), or at its destruction; in order of arrival, once they
  // have had room for everything that was sent before.
  ~StreamSender();
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;

  // Copies the examples and starts to send them; does not wait for the receiver (unless
  // StreamSenderOptions::waits). Returns how many it took: the first ones; the rest is dropped and
  // counted. 0 once no receiver is left. A usage error if the fields differ from the stream's.
  std::int64_t send(const Dataset& examples);

  // Whether a rank still wants examples: false when training has ended there, or failed.
  bool is_open();
  std::int64_t sent() const { return sent_; }
  // Examples for which there was no room; those made after training has ended are not counted.
  std::int64_t dropped() const { return dropped_; }

 private:
  struct Connection;
  struct Receiver;

  void poll();
  bool has_open_receiver() const;
  Receiver* next_receiver();
  std::int64_t send_where_there_is_room(const Dataset& examples, std::int64_t begin);
  void send_to(Receiver& receiver, const Dataset& examples, std::int64_t begin, std::int64_t end);
  void say_farewell(Receiver& receiver);
  // What a message to this receiver says: one receiver counts for all.
  std::int64_t dropped_for(const Receiver& receiver) const;
  void finish();

  std::vector<Field> fields_;
  StreamSenderOptions options_;
  std::unique_ptr<Connection> connection_;
  std::int64_t sent_ = 0, dropped_ = 0;
};

}  // namespace tasuki
