#include "communicator/mpi/departures.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/environment.hpp"
#include "core/job_process.hpp"
#include "core/keep_until_exit.hpp"
#include "core/log.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace {

constexpr int tag = 4;  // of messages on the communicator of the plans; theirs have another tag
constexpr std::size_t longest = 512;  // bytes: the communicator's id and a text

// What is sent must stay where it is until it has been sent.
struct Sent {
  std::string message;
  std::vector<MPI_Request> requests;
};

}  // namespace

void Departures::note(std::string text) {
  const std::lock_guard lock(mutex_);
  if (text_.empty()) text_ = std::move(text);
  is_over_ = true;
}

void Departures::announce(std::string_view why) noexcept {
  if (errors_end_job() || std::exchange(is_announced_, true)) return;
  try {
    int world_rank = 0;
    TASUKI_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &world_rank);
    // Who has left because another rank has left passes on what it knows.
    note(fmt::format("rank {} on {} has left: {}", world_rank, host_name(), message_line(why)));
    std::string message(sizeof id_, '\0');
    std::memcpy(message.data(), &id_, sizeof id_);
    message += text_.substr(0, longest - sizeof id_);
    Sent& sent = keep_until_exit<Sent>(Sent{std::move(message), {}});
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (rank != comm_.rank())
        TASUKI_MPI(MPI_Isend, sent.message.data(), static_cast<int>(sent.message.size()), MPI_BYTE,
                   rank, tag, comm_.get(), &sent.requests.emplace_back(MPI_REQUEST_NULL));
  } catch (const std::exception& error) {
    log_warning("other ranks were not told of an error: {}", error.what());
  }
}

void Departures::refuse_if_over() const {
  if (!is_over_) return;
  const std::lock_guard lock(mutex_);
  fail(ErrorKind::io,
       "{}; the communicator can only be destroyed now, and a new one made by the ranks that go on",
       text_);
}

void Departures::receive() {
  if (is_over_ || !comm_) return;
  // Another thread may look at the same time, so the message that was found is taken by its handle.
  int has_arrived = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  TASUKI_MPI(MPI_Improbe, MPI_ANY_SOURCE, tag, comm_.get(), &has_arrived, &message, &status);
  if (has_arrived == 0) return;
  std::array<char, longest> bytes{};
  int count = 0;
  TASUKI_MPI(MPI_Get_count, &status, MPI_BYTE, &count);
  TASUKI_MPI(MPI_Mrecv, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, &message,
             MPI_STATUS_IGNORE);
  std::uint64_t id = 0;
  std::memcpy(&id, bytes.data(), sizeof id);
  if (id == id_)
    note(std::string(bytes.data() + sizeof id, static_cast<std::size_t>(count) - sizeof id));
}

void Departures::look() {
  receive();
  refuse_if_over();
}

void Departures::look_last() noexcept {
  try {
    receive();
  } catch (const std::exception& error) {
    log_warning("the end of a communicator: {}", error.what());
  }
}

}  // namespace tasuki
