#include "core/temporary_name.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <random>

#include "core/descriptor.hpp"
#include "core/environment.hpp"
#include "core/hash.hpp"
#include "core/process_state.hpp"

namespace tasuki {
namespace {

constexpr std::string_view mark = ".tasuki-", suffix = ".tmp", unknown = "00000000";
constexpr std::string_view decimal = "0123456789", hexadecimal = "0123456789abcdef";

bool are_digits(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == text.npos;
}

// The first digits in a file; nothing if it has fewer, or other text.
std::optional<std::string> first_digits_of(const char* path, std::size_t size) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  std::string digits(size, '\0');
  if (!file || ::read(file.get(), digits.data(), size) != static_cast<ssize_t>(size) ||
      !are_digits(digits, hexadecimal))
    return std::nullopt;
  return digits;
}

// The kernel's random number for this boot.
std::string boot() {
  return first_digits_of("/proc/sys/kernel/random/boot_id", unknown.size())
      .value_or(std::string(unknown));
}

// A hash of the machine's number, which is confidential.
std::string machine() {
  const auto number = first_digits_of("/etc/machine-id", 32);
  return number ? fmt::format("{:08x}", static_cast<std::uint32_t>(hash_text(*number)))
                : std::string(unknown);
}

// The namespace of process numbers.
std::string process_namespace() {
  struct stat found {};
  if (::stat("/proc/self/ns/pid", &found) != 0) return std::string(unknown);
  return fmt::format("{:08x}", static_cast<std::uint32_t>(found.st_ino));
}

// This host's name as part of a file name.
std::string host_in_names() {
  std::string host = host_name().substr(0, 64);
  std::ranges::replace_if(
      host, [](unsigned char c) { return c <= ' ' || c == '/' || c == 0x7f; }, '_');
  return host;
}

// A name's beginning, in whole UTF-8 characters, that leaves room for the rest.
std::string start_of(std::string name) {
  std::size_t most = 100;
  if (name.size() <= most) return name;
  while (most > 0 && (static_cast<unsigned char>(name[most]) & 0xc0) == 0x80) --most;
  return name.substr(0, most);
}

struct Parts {
  std::string_view stem, host, machine, boot, process_namespace, process;
};

// Removes the last '-' and what follows from `text`, and returns the latter.
std::string_view take_last(std::string_view& text) {
  const auto dash = text.rfind('-');
  if (dash == text.npos) return {};
  const std::string_view last = text.substr(dash + 1);
  text = text.substr(0, dash);
  return last;
}

std::optional<Parts> parts_of(std::string_view name) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const std::string_view random = take_last(name), process = take_last(name),
                         place = take_last(name);
  const auto at = name.rfind(mark);
  if (at == name.npos || !are_digits(random, hexadecimal) || random.size() != 2 * unknown.size() ||
      !are_digits(process, decimal) || !are_digits(place, hexadecimal) ||
      place.size() != 3 * unknown.size())
    return std::nullopt;
  const auto part = [&](std::size_t i) { return place.substr(i * unknown.size(), unknown.size()); };
  return Parts{.stem = name.substr(0, at),
               .host = name.substr(at + mark.size()),
               .machine = part(0),
               .boot = part(1),
               .process_namespace = part(2),
               .process = process};
}

bool is_alive(std::string_view process) {
  pid_t number = 0;
  const auto end = process.data() + process.size();
  const bool is_number = std::from_chars(process.data(), end, number).ec == std::errc();
  if (!is_number || number <= 0) return true;
  if (::kill(number, 0) != 0 && errno == ESRCH) return false;
  const auto state = process_state(number);  // may be hidden
  return !state || !state->has_ended();
}

}  // namespace

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::random_device source;  // the kernel's, or the processor's
  std::filesystem::path name = path;
  name.replace_filename(fmt::format(
      "{}{}{}-{}{}{}-{}-{:08x}{:08x}{}", start_of(path.filename().string()), mark, host_in_names(),
      machine(), boot(), process_namespace(), ::getpid(), source(), source(), suffix));
  return name;
}

std::optional<std::string> name_of_temporary(std::string_view name) {
  const auto parts = parts_of(name);
  return parts ? std::optional(std::string(parts->stem)) : std::nullopt;
}

std::filesystem::path final_path(const std::filesystem::path& path) {
  std::filesystem::path names;
  for (const std::filesystem::path& each : path)
    names /= name_of_temporary(each.string()).value_or(each.string());
  return names;
}

bool is_leftover(std::string_view name) {
  const auto parts = parts_of(name);
  const std::string now = boot();
  if (!parts || parts->host != host_in_names() || parts->boot == unknown || now == unknown)
    return false;
  if (parts->boot != now) return parts->machine != unknown && parts->machine == machine();
  return parts->process_namespace != unknown && parts->process_namespace == process_namespace() &&
         !is_alive(parts->process);
}

}  // namespace tasuki
