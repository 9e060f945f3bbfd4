// What the fuzzing harnesses share: libFuzzer's bytes taken apart, files, and checks.
//
// A harness gives arbitrary bytes to a parser. Whatever they are, the parser accepts them or throws
// an Error of one line; what it accepts must be what the bytes say. Anything else ends the harness,
// which libFuzzer reports together with the input: other exceptions, failed checks, findings of the
// sanitizers, too much memory or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "dataset/data_source.hpp"

// What libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tasuki::fuzz {

// The bytes of an input from the first on. Behind the end numbers are 0 and parts are empty.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(std::as_bytes(std::span(data, size))) {}

  template <class Number = std::uint8_t>
  Number number() {
    Number value{};
    const std::span<const std::byte> bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // As many bytes as the two before it say, the lower one first.
  std::span<const std::byte> part() { return take(number<std::uint16_t>()); }
  std::span<const std::byte> rest() { return take(left_.size()); }
  bool is_at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes);

  std::span<const std::byte> left_;
};

std::string_view as_text(std::span<const std::byte> bytes);

// A file in TMPDIR, without a name at the end.
class InputFile {
 public:
  InputFile();
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Replaces the contents.
  void write(std::span<const std::byte> contents);
  const std::filesystem::path& path() const { return path_; }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

// Ends the harness if the condition is false: the program has a defect.
void require(bool condition, std::string_view what);

// Checks an error's message: one line, and not empty.
void check_message(const Error& error);

// Counts what the parser said of an input. At the end the harness prints both counts, and run.py
// refuses a harness that accepts nothing of its corpus: it would test only how files are refused.
void count(bool is_accepted);

// Whether `parse` accepted the input. False: it threw an Error.
template <class Parse>
bool accepts(Parse&& parse) {
  try {
    parse();
    count(true);
    return true;
  } catch (const Error& error) {
    check_message(error);
    count(false);
    return false;
  }
}

// All examples of a source, field by field, as stored. There must be as many as its header says, of
// the sizes that it says, and labels below its numbers of classes.
std::vector<std::vector<std::byte>> read_all(DataSource& source);

}  // namespace tasuki::fuzz
