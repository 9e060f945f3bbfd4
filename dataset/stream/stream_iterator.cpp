#include "dataset/stream/stream_iterator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "communicator/bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/philox.hpp"
#include "core/polite_wait.hpp"
#include "dataset/stream/stream_ends.hpp"

namespace tasuki {

struct StreamIterator::Sender {
  int rank = 0;
  std::int64_t taken = 0, told = 0;  // examples; `told`: those that the sender knows of
  std::int64_t dropped = 0;          // by the sender
  bool is_gone = false;              // has said farewell
  std::int64_t news = 0;             // under way in `request`
  MPI_Request request = MPI_REQUEST_NULL;
};

struct StreamIterator::Connection {
  StreamEnds ends;
  std::vector<Sender> senders;
  std::vector<std::byte> message;  // the last one that has arrived
  // Its examples that the buffer has no room for yet, and who sent them.
  Range left;
  Sender* left_from = nullptr;
};

namespace {

const StreamOptions& checked(const StreamOptions& options) {
  if (options.batch_size < 1 || options.steps_per_epoch < 1 || options.least < 0 ||
      !(options.most_uses >= 0))
    fail(ErrorKind::usage,
         "a stream: expected a positive batch size and positive steps per epoch, and least and "
         "most_uses of at least 0; found {}, {}, {} and {}",
         options.batch_size, options.steps_per_epoch, options.least, options.most_uses);
  if (std::max(options.batch_size, options.least) > options.capacity)
    fail(ErrorKind::usage,
         "a stream: a batch of {} (and {} examples before the first one) does not fit into a "
         "buffer of {}; raise the capacity",
         options.batch_size, options.least, options.capacity);
  return options;
}

bool is_done(MPI_Request& request) {
  int done = 0;
  TASUKI_MPI(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

}  // namespace

StreamIterator::StreamIterator(MPI_Comm comm, std::vector<Field> fields,
                               const StreamOptions& options)
    : options_(checked(options)), buffer_(std::move(fields), options.capacity) {
  connection_ = std::make_unique<Connection>();
  connection_->ends = connect_stream(comm, true, buffer_.header().fields);
  for (const int rank : connection_->ends.partners) connection_->senders.push_back({.rank = rank});
}

StreamIterator::~StreamIterator() {
  try {
    farewell();
  } catch (const std::exception& error) {
    log_warning("the end of a stream: {}", error.what());
  }
}

// Everything that was sent has arrived afterwards, so that the communicator can be freed.
void StreamIterator::farewell() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over != 0) return;
  const WaitScope waiting_for_senders(Waiting::recv, 0, any_source);
  is_ending_ = true;
  for (Sender& sender : connection_->senders)
    if (!sender.is_gone) send_news(sender, StreamNews::no_more);
  const auto is_over_with = [](Sender& sender) {
    return sender.is_gone && is_done(sender.request);
  };
  for (PoliteWait waiting; !std::ranges::all_of(connection_->senders, is_over_with);
       waiting.pause())
    poll();
}

void StreamIterator::send_news(Sender& sender, std::int64_t news) {
  for (PoliteWait waiting; !is_done(sender.request); waiting.pause()) {
  }
  sender.news = news;
  TASUKI_MPI(MPI_Isend, &sender.news, 1, MPI_INT64_T, sender.rank,
             static_cast<int>(StreamTag::news), connection_->ends.comm.get(), &sender.request);
}

void StreamIterator::poll() {
  Connection& connection = *connection_;
  for (;;) {
    take_in_what_fits();
    if (connection.left.size() > 0) break;
    int has_arrived = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    TASUKI_MPI(MPI_Improbe, MPI_ANY_SOURCE, static_cast<int>(StreamTag::examples),
               connection.ends.comm.get(), &has_arrived, &handle, &status);
    if (has_arrived == 0) break;
    int bytes = 0;
    TASUKI_MPI(MPI_Get_count, &status, MPI_BYTE, &bytes);
    connection.message.resize(static_cast<std::size_t>(bytes));
    TASUKI_MPI(MPI_Mrecv, connection.message.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    take_in(*std::ranges::find(connection.senders, status.MPI_SOURCE, &Sender::rank));
    report_progress();
  }
  for (Sender& sender : connection.senders)
    if (!sender.is_gone && sender.told != sender.taken && is_done(sender.request))
      send_news(sender, sender.told = sender.taken);
}

void StreamIterator::take_in(Sender& sender) {
  const std::span<const std::byte> message = connection_->message;
  StreamMessage start;
  TASUKI_CHECK(message.size() >= sizeof start, "a message of {} bytes in a stream", message.size());
  std::memcpy(&start, message.data(), sizeof start);
  sender.dropped = start.dropped;
  if (start.count == StreamMessage::farewell) {
    send_news(sender, StreamNews::farewell);
    sender.is_gone = true;
    return;
  }
  connection_->left = {0, start.count};
  connection_->left_from = &sender;
}

// The sender is told of an example when it is in the buffer, so that a full buffer holds it up.
void StreamIterator::take_in_what_fits() {
  Connection& connection = *connection_;
  Range& left = connection.left;
  if (left.size() == 0) return;
  const std::span<const std::byte> columns =
      std::span<const std::byte>(connection.message).subspan(sizeof(StreamMessage));
  const std::int64_t fitting = std::min(left.size(), room());
  buffer_.add(columns, left.end, {left.begin, left.begin + fitting});
  connection.left_from->taken += fitting;
  left.begin += fitting;
}

std::int64_t StreamIterator::room() const {
  const bool replaces_oldest = options_.order == StreamOrder::random || is_ending_;
  return replaces_oldest ? std::numeric_limits<std::int64_t>::max()
                         : buffer_.capacity() - buffer_.waiting();
}

void StreamIterator::add(const Dataset& examples) {
  check_stream_fields(examples, buffer_.header().fields, "StreamIterator::add");
  std::vector<std::byte> columns;
  append_columns(examples, 0, examples.size(), columns);
  buffer_.add(columns, examples.size());
}

bool StreamIterator::can_get_more() const {
  if (connection_->senders.empty()) return !is_finished_;
  return !std::ranges::all_of(connection_->senders, &Sender::is_gone);
}

bool StreamIterator::is_open() {
  poll();
  int is_open = can_get_more() || (options_.order == StreamOrder::arrival && buffer_.waiting() > 0);
  if (connection_->ends.receivers.size() > 1) {
    const WaitScope waiting_for_receivers(Waiting::allreduce);
    TASUKI_MPI(MPI_Allreduce, MPI_IN_PLACE, &is_open, 1, MPI_INT, MPI_MAX,
               connection_->ends.side.get());
  }
  return is_open != 0;
}

bool StreamIterator::is_ready() const {
  if (options_.order == StreamOrder::arrival) return buffer_.waiting() >= options_.batch_size;
  const StreamCounts& counts = buffer_.counts();
  const auto most = options_.most_uses * static_cast<double>(counts.arrived);
  return buffer_.held() >= std::max(options_.least, options_.batch_size) &&
         (options_.most_uses == 0 ||
          static_cast<double>(counts.used + options_.batch_size) <= most);
}

void StreamIterator::wait_until_ready() {
  poll();
  if (is_ready() || !can_get_more()) return;
  if (connection_->senders.empty())
    fail(ErrorKind::usage,
         "a stream without senders has too few examples for a batch of {} (held: {}); add() more "
         "before next(), or say finish()",
         options_.batch_size, buffer_.held());
  const WaitScope waiting_for_examples(Waiting::recv, 0, any_source);
  for (PoliteWait waiting; !is_ready() && can_get_more(); waiting.pause()) poll();
}

Batch StreamIterator::next() {
  wait_until_ready();
  std::vector<std::int64_t> places;
  if (options_.order == StreamOrder::arrival) {
    places = buffer_.take_oldest(options_.batch_size);
  } else {
    const std::array<std::uint64_t, 2> step{static_cast<std::uint64_t>(state_.epoch),
                                            static_cast<std::uint64_t>(state_.step)};
    places = buffer_.take_any(options_.batch_size, options_.seed, mix(step));
  }
  Batch batch = read_batch(buffer_, places, state_.epoch);
  if (++state_.step == options_.steps_per_epoch) state_ = {state_.epoch + 1, 0};
  return batch;
}

EpochLayout StreamIterator::layout() const {
  const auto ranks = static_cast<std::int64_t>(connection_->ends.receivers.size());
  const std::int64_t global_batch = ranks * options_.batch_size;
  return {global_batch * options_.steps_per_epoch, ranks,         global_batch,
          options_.order == StreamOrder::random,   options_.seed, 0};
}

void StreamIterator::restore(const IteratorState& state) {
  if (state.epoch < 0 || state.step < 0 || state.step >= options_.steps_per_epoch)
    fail(ErrorKind::data, "a stream of {} steps per epoch cannot be at epoch {}, step {}",
         options_.steps_per_epoch, state.epoch, state.step);
  state_ = state;
}

StreamCounts StreamIterator::counts() const {
  StreamCounts counts = buffer_.counts();
  for (const Sender& sender : connection_->senders) counts.dropped_by_senders += sender.dropped;
  return counts;
}

}  // namespace tasuki
