#include "tasuki/communicator/run_on_root.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace tasuki {
namespace {

// The outcome of the work: the error's exit code (0: success) and message.
struct Outcome {
  int exit_code = 0;
  std::string message;
};

Outcome outcome_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ErrorKind::unavailable), "out of memory"};
  } catch (const std::exception& error) {
    return {static_cast<int>(ErrorKind::internal), error.what()};
  }
  return {};
}

Bytes encode(const Outcome& outcome) {
  Bytes bytes(sizeof(outcome.exit_code) + outcome.message.size());
  std::memcpy(bytes.data(), &outcome.exit_code, sizeof(outcome.exit_code));
  std::memcpy(bytes.data() + sizeof(outcome.exit_code), outcome.message.data(),
              outcome.message.size());
  return bytes;
}

Outcome decode(const Bytes& bytes) {
  Outcome outcome;
  TASUKI_CHECK(bytes.size() >= sizeof(outcome.exit_code), "an outcome of {} bytes", bytes.size());
  std::memcpy(&outcome.exit_code, bytes.data(), sizeof(outcome.exit_code));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  outcome.message.assign(text + sizeof(outcome.exit_code), text + bytes.size());
  return outcome;
}

void throw_if_failed(const Outcome& outcome, const Communicator& communicator) {
  if (outcome.exit_code != 0)
    throw Error(static_cast<ErrorKind>(outcome.exit_code), outcome.message,
                communicator.topology().shared_error_scope);
}

}  // namespace

Bytes run_on_root(Communicator& communicator, int root, const std::function<Bytes()>& work) {
  Bytes result, message;
  if (communicator.rank() == root) message = encode(outcome_of([&] { result = work(); }));
  throw_if_failed(decode(communicator.bcast_bytes(message, root)), communicator);
  return communicator.bcast_bytes(result, root);
}

void run_on_all(Communicator& communicator, const std::function<void()>& work) {
  for (const Bytes& message : communicator.allgather_bytes(encode(outcome_of(work))))
    throw_if_failed(decode(message), communicator);
}

}  // namespace tasuki
