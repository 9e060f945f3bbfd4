#include "communicator/outcome.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <new>

#include "core/system_error.hpp"

namespace tasuki {

Outcome outcome_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.exit_code(), error.what(), cause_of(error)};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ErrorKind::unavailable), "out of memory"};
  } catch (const std::exception& error) {
    return {static_cast<int>(ErrorKind::internal), error.what()};
  }
  return {};
}

std::string encode(const Outcome& outcome) {
  const std::array numbers = {outcome.exit_code, outcome.cause.value()};
  std::string text(sizeof numbers, '\0');
  std::memcpy(text.data(), numbers.data(), sizeof numbers);
  return text + outcome.message;
}

Outcome decode(std::string_view text) {
  std::array<int, 2> numbers{};
  TASUKI_CHECK(text.size() >= sizeof numbers, "an outcome of {} bytes", text.size());
  std::memcpy(numbers.data(), text.data(), sizeof numbers);
  return {numbers[0], std::string(text.substr(sizeof numbers)),
          std::error_code(numbers[1], std::generic_category())};
}

void throw_if_failed(const Outcome& outcome, ErrorScope scope) {
  if (outcome.exit_code == 0) return;
  const auto kind = static_cast<ErrorKind>(outcome.exit_code);
  if (outcome.cause) throw SystemError(kind, outcome.cause, outcome.message, scope);
  throw Error(kind, outcome.message, scope);
}

}  // namespace tasuki
