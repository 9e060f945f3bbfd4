#include "fuzz.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>

// What is linked from Tasuki's libraries does not mark the unused part of containers.
extern "C" const char* __asan_default_options() {
  return "detect_container_overflow=0:allocator_may_return_null=0";
}
extern "C" const char* __ubsan_default_options() {
  return "print_stacktrace=1";
}

namespace tasuki::fuzz {

std::span<const std::byte> Input::take(std::size_t bytes) {
  const auto taken = left_.first(std::min(bytes, left_.size()));
  left_ = left_.subspan(taken.size());
  return taken;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

InputFile::InputFile() {
  std::string name = (std::filesystem::temp_directory_path() / "input-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  require(descriptor_ >= 0, "no file can be made");
  path_ = name;
}

InputFile::~InputFile() {
  ::close(descriptor_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void InputFile::write(std::span<const std::byte> contents) {
  require(::ftruncate(descriptor_, 0) == 0 &&
              ::pwrite(descriptor_, contents.data(), contents.size(), 0) == std::ssize(contents),
          "a file cannot be written");
}

void require(bool condition, std::string_view what) {
  if (condition) return;
  fmt::print(stderr, "fuzzing found a defect: {}\n", what);
  std::abort();
}

void count(bool is_accepted) {
  struct Counts {
    std::int64_t accepted = 0, refused = 0;
    ~Counts() { fmt::print(stderr, "accepted: {}, refused: {}\n", accepted, refused); }
  };
  static Counts counts;
  ++(is_accepted ? counts.accepted : counts.refused);
}

void check_message(const Error& error) {
  const std::string_view message = error.what();
  require(!message.empty() && message.find('\n') == std::string_view::npos,
          fmt::format("this message is not one line: '{}'", message));
}

std::vector<std::vector<std::byte>> read_all(DataSource& source) {
  const DatasetHeader& header = source.header();
  std::vector<std::vector<std::byte>> all(header.fields.size());
  std::int64_t examples = 0;
  for (RecordBlock block; source.read_block(block);) {
    require(block.first == examples && block.columns.size() == all.size(),
            "a block does not follow the one before");
    examples += block.count;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Field& field = header.fields[i];
      for (std::int64_t k = 0; k < block.count; ++k) {
        const std::span<const std::byte> example = block.at(i, k);
        require(field.is_variable() ? example.size() % field.stored_bytes() == 0
                                    : example.size() == field.stored_bytes(),
                "an example has another size than its field");
        if (field.classes > 0 && field.stored == DType::int32) {
          std::int32_t label = 0;
          std::memcpy(&label, example.data(), sizeof label);
          require(label >= 0 && label < field.classes, "a label is not one of the classes");
        }
        all[i].insert(all[i].end(), example.begin(), example.end());
      }
    }
  }
  require(examples == header.count, "there are more or fewer examples than the header says");
  return all;
}

}  // namespace tasuki::fuzz
