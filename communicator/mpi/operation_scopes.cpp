#include "communicator/mpi/operation_scopes.hpp"

#include <cstdint>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/exchanges_under_way.hpp"
#include "communicator/mpi/collective_check.hpp"
#include "communicator/mpi/ranks.hpp"

namespace tasuki {
namespace {

// Refuses a rank that is not another one.
void check_peer(const Communicator& communicator, const char* operation, int peer) {
  if (peer == communicator.rank())
    fail(ErrorKind::usage, "{}: rank {} cannot send to itself or receive from itself", operation,
         peer);
  if (peer < 0 || peer >= communicator.size())
    fail(ErrorKind::usage, "{}: rank {} of {} ranks; expected 0 to {}", operation, peer,
         communicator.size(), communicator.size() - 1);
}

}  // namespace

Departures& CollectiveScope::departures_of(const Communicator& communicator) {
  return communicator.handles_->departures;
}

std::function<void()> CollectiveScope::check_of(const Communicator& communicator) {
  Departures& departures = departures_of(communicator);
  departures.refuse_if_over();
  return [&departures] { departures.look(); };
}

bool CollectiveScope::is_compared(const Communicator& communicator) {
  return communicator.check_ && !communicator.exchanges_->is_at_work();
}

void CollectiveScope::compare(const Communicator& communicator, const std::string& call) {
  // The start of an exchange in the background waits for others here alone.
  const WaitScope waiting(Waiting::barrier, communicator.id_);
  communicator.check_->compare(call);
}

MessageScope::MessageScope(const Communicator& communicator, Waiting kind, const char* operation,
                           int peer)
    : comm_(communicator.handles_->messages.get()),
      waiting_(kind, communicator.id_,
               [&]() -> std::int64_t {
                 if (kind == Waiting::recv && peer == any_source) return any_source;
                 check_peer(communicator, operation, peer);
                 return communicator.handles_->job_ranks[static_cast<std::size_t>(peer)];
               }()),
      check_(CollectiveScope::check_of(communicator)) {}

void check_root(const Communicator& communicator, const char* operation, int root) {
  if (root < 0 || root >= communicator.size())
    throw Error(ErrorKind::usage,
                fmt::format("{}: root {} of {} ranks; expected 0 to {}", operation, root,
                            communicator.size(), communicator.size() - 1),
                communicator.topology().shared_error_scope);
}

}  // namespace tasuki
