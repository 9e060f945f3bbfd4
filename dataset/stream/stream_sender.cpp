#include "dataset/stream/stream_sender.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "communicator/bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/polite_wait.hpp"
#include "dataset/stream/example_buffer.hpp"
#include "dataset/stream/stream_ends.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 30;  // of a message

struct UnderWay {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

}  // namespace

struct StreamSender::Receiver {
  int rank = 0;
  std::int64_t sent = 0, taken = 0;  // examples
  bool wants_more = true;
  bool is_farewell_said = false, is_farewell_answered = false;

  std::int64_t room(std::int64_t window) const { return wants_more ? window - (sent - taken) : 0; }
};

struct StreamSender::Connection {
  StreamEnds ends;
  std::vector<Receiver> receivers;
  std::deque<UnderWay> messages;

  void start(UnderWay message, int rank) {
    // In its final place, because MPI keeps its addresses.
    UnderWay& kept = messages.emplace_back(std::move(message));
    TASUKI_MPI(MPI_Isend, kept.bytes.data(), checked_cast<int>(kept.bytes.size(), "a message"),
               MPI_BYTE, rank, static_cast<int>(StreamTag::examples), ends.comm.get(),
               &kept.request);
  }
  void forget_sent() {
    for (UnderWay& message : messages) {
      int done = 0;
      if (message.request != MPI_REQUEST_NULL)
        TASUKI_MPI(MPI_Test, &message.request, &done, MPI_STATUS_IGNORE);
    }
    while (!messages.empty() && messages.front().request == MPI_REQUEST_NULL) messages.pop_front();
  }
};

StreamSender::StreamSender(MPI_Comm comm, std::vector<Field> fields,
                           const StreamSenderOptions& options)
    : fields_(std::move(fields)), options_(options) {
  if (options.window < 1)
    fail(ErrorKind::usage, "a stream: expected a window of at least 1 example, found {}",
         options.window);
  connection_ = std::make_unique<Connection>();
  connection_->ends = connect_stream(comm, false, fields_);
  for (const int rank : connection_->ends.partners)
    connection_->receivers.push_back({.rank = rank});
}

StreamSender::~StreamSender() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_warning("the end of a stream: {}", error.what());
  }
}

void StreamSender::finish() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over != 0) return;
  const WaitScope waiting_for_receivers(Waiting::send, 0, any_source);
  PoliteWait waiting;
  for (Receiver& receiver : connection_->receivers) say_farewell(receiver);
  const auto has_answered = [](const Receiver& receiver) { return receiver.is_farewell_answered; };
  while (!std::ranges::all_of(connection_->receivers, has_answered) ||
         !connection_->messages.empty()) {
    poll();
    waiting.pause();
  }
}

std::int64_t StreamSender::dropped_for(const Receiver& receiver) const {
  return &receiver == &connection_->receivers.front() ? dropped_ : 0;
}

void StreamSender::say_farewell(Receiver& receiver) {
  receiver.wants_more = false;
  if (std::exchange(receiver.is_farewell_said, true)) return;
  const StreamMessage last{StreamMessage::farewell, dropped_for(receiver)};
  UnderWay message{std::vector<std::byte>(sizeof last)};
  std::memcpy(message.bytes.data(), &last, sizeof last);
  connection_->start(std::move(message), receiver.rank);
}

void StreamSender::poll() {
  const MPI_Comm comm = connection_->ends.comm.get();
  for (;;) {
    int has_news = 0;
    MPI_Status status;
    TASUKI_MPI(MPI_Iprobe, MPI_ANY_SOURCE, static_cast<int>(StreamTag::news), comm, &has_news,
               &status);
    if (has_news == 0) break;
    std::int64_t news = 0;
    TASUKI_MPI(MPI_Recv, &news, 1, MPI_INT64_T, status.MPI_SOURCE,
               static_cast<int>(StreamTag::news), comm, MPI_STATUS_IGNORE);
    Receiver& receiver =
        *std::ranges::find(connection_->receivers, status.MPI_SOURCE, &Receiver::rank);
    if (news == StreamNews::farewell)
      receiver.is_farewell_answered = true;
    else if (news == StreamNews::no_more)
      say_farewell(receiver);
    else
      receiver.taken = news;
  }
  connection_->forget_sent();
}

bool StreamSender::has_open_receiver() const {
  return std::ranges::any_of(connection_->receivers, &Receiver::wants_more);
}

bool StreamSender::is_open() {
  poll();
  return has_open_receiver();
}

void StreamSender::send_to(Receiver& receiver, const Dataset& examples, std::int64_t begin,
                           std::int64_t end) {
  const StreamMessage start{end - begin, dropped_for(receiver)};
  UnderWay message;
  message.bytes.reserve(sizeof start +
                        static_cast<std::size_t>(end - begin) * examples.header().fixed_bytes());
  message.bytes.resize(sizeof start);
  std::memcpy(message.bytes.data(), &start, sizeof start);
  append_columns(examples, begin, end, message.bytes);
  connection_->start(std::move(message), receiver.rank);
  receiver.sent += end - begin;
  sent_ += end - begin;
}

// The one that has got the fewest examples from this rank, of those with room; null: none has. Not
// all senders begin with the same one.
StreamSender::Receiver* StreamSender::next_receiver() {
  std::vector<Receiver>& receivers = connection_->receivers;
  const auto first = static_cast<std::size_t>(connection_->ends.side.rank());
  Receiver* next = nullptr;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    Receiver& each = receivers[(first + i) % receivers.size()];
    if (each.room(options_.window) > 0 && (next == nullptr || each.sent < next->sent)) next = &each;
  }
  return next;
}

// Returns the first example that was not sent.
std::int64_t StreamSender::send_where_there_is_room(const Dataset& examples, std::int64_t begin) {
  const auto bytes =
      std::max<std::int64_t>(static_cast<std::int64_t>(examples.header().fixed_bytes()), 1);
  const auto count = std::ssize(connection_->receivers);
  const std::int64_t most =
      std::clamp<std::int64_t>((examples.size() - begin + count - 1) / count, 1,
                               std::max<std::int64_t>(most_bytes / bytes, 1));
  while (begin < examples.size()) {
    Receiver* const receiver = next_receiver();
    if (receiver == nullptr) break;
    const std::int64_t share =
        std::min({receiver->room(options_.window), examples.size() - begin, most});
    send_to(*receiver, examples, begin, begin + share);
    begin += share;
  }
  return begin;
}

std::int64_t StreamSender::send(const Dataset& examples) {
  check_stream_fields(examples, fields_, "StreamSender::send");
  poll();
  std::int64_t begin = send_where_there_is_room(examples, 0);
  if (options_.waits && begin < examples.size() && has_open_receiver()) {
    const WaitScope waiting_for_room(Waiting::send, 0, any_source);
    for (PoliteWait waiting; begin < examples.size() && has_open_receiver(); waiting.pause()) {
      poll();
      begin = send_where_there_is_room(examples, begin);
    }
  }
  if (has_open_receiver()) dropped_ += examples.size() - begin;
  return begin;
}

}  // namespace tasuki
