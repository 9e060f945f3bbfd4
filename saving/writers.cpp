#include "saving/writers.hpp"

#include <fmt/core.h>

#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "communicator/outcome.hpp"
#include "communicator/text_bytes.hpp"
#include "core/environment.hpp"
#include "core/error.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

// A file that goes away with the object.
class Token {
 public:
  explicit Token(const fs::path& folder) : path_(temporary_name(folder / "writer")) {
    open_own_file(path_, OwnFile::make);  // stays empty: there may be no room for a byte
  }
  ~Token() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  std::string name() const { return path_.filename().string(); }

 private:
  fs::path path_;
};

}  // namespace

std::string random_id() {
  std::random_device source;  // the kernel's
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", source());
  return id;
}

Writers::Writers(int index, int count, Exchange exchange)
    : index_(index), count_(count), exchange_(std::move(exchange)) {
  TASUKI_CHECK(0 <= index && index < count, "writer {} of {}", index, count);
}

Writers::Writers(Communicator& communicator)
    : Writers(communicator.rank(), communicator.size(), [&communicator](const std::string& own) {
        std::vector<std::string> texts;
        for (const Bytes& bytes : allgather_bytes(communicator, text_to_bytes(own)))
          texts.emplace_back(bytes_to_text(bytes));
        return texts;
      }) {}

std::vector<std::string> Writers::on_all(const std::function<std::string()>& work) const {
  std::string result;
  Outcome own = outcome_of([&] {
    try {
      result = work();
    } catch (const std::system_error& error) {  // of std::filesystem
      throw SystemError(ErrorKind::cannot_write, error.code(), error.what());
    } catch (const SystemError& error) {  // of files that it looks into
      throw SystemError(ErrorKind::cannot_write, error.cause(), error.what(), error.scope());
    }
  });
  if (own.exit_code == 0)
    own.message = std::move(result);
  else if (count_ > 1)
    own.message += fmt::format(" (on {})", host_name());
  std::vector<std::string> texts{encode(own)};
  if (count_ > 1) texts = exchange_(texts.front());
  for (std::string& text : texts) {
    Outcome outcome = decode(text);
    throw_if_failed(outcome, count_ > 1 ? ErrorScope::every_rank : ErrorScope::this_rank);
    text = std::move(outcome.message);
  }
  return texts;
}

std::vector<int> Writers::first_on_disk(const fs::path& folder) const {
  if (count_ == 1) return {0};
  std::optional<Token> own;
  const std::vector<std::string> tokens = on_all([&] { return own.emplace(folder).name(); });
  const std::vector<std::string> found = on_all([&] {
    for (int other = 0; other < index_; ++other)
      if (fs::exists(folder / tokens[static_cast<std::size_t>(other)]))
        return std::to_string(other);
    return std::to_string(index_);
  });
  std::vector<int> firsts;
  firsts.reserve(found.size());
  for (const std::string& text : found) firsts.push_back(std::stoi(text));
  return firsts;
}

}  // namespace tasuki
