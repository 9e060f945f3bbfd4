#include "tasuki/communicator/outcome.hpp"

#include <cstring>
#include <exception>
#include <new>

namespace tasuki {

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

std::string encode(const Outcome& outcome) {
  std::string text(sizeof(outcome.exit_code), '\0');
  std::memcpy(text.data(), &outcome.exit_code, sizeof(outcome.exit_code));
  return text + outcome.message;
}

Outcome decode(std::string_view text) {
  Outcome outcome;
  TASUKI_CHECK(text.size() >= sizeof(outcome.exit_code), "an outcome of {} bytes", text.size());
  std::memcpy(&outcome.exit_code, text.data(), sizeof(outcome.exit_code));
  outcome.message = text.substr(sizeof(outcome.exit_code));
  return outcome;
}

void throw_if_failed(const Outcome& outcome, ErrorScope scope) {
  if (outcome.exit_code != 0)
    throw Error(static_cast<ErrorKind>(outcome.exit_code), outcome.message, scope);
}

}  // namespace tasuki
