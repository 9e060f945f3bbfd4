#include "gathering_printer.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "core/environment.hpp"

namespace tasuki::testing {
namespace {

class GatheringPrinter : public ::testing::EmptyTestEventListener {
 public:
  GatheringPrinter() : communicator_(create_communicator("naive")) {}

  int rank() const { return communicator_->rank(); }

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed() || rank() == 0) return;
    failures_ += fmt::format("[rank {} on {}] {}:{}\n{}\n", rank(), host_name(),
                             result.file_name() != nullptr ? result.file_name() : "unknown file",
                             result.line_number(), result.message());
  }

  void OnTestEnd(const ::testing::TestInfo& /*test*/) override {
    const auto gathered = gather_bytes(*communicator_, text_to_bytes(failures_), 0);
    failures_.clear();
    std::string text;
    for (const Bytes& bytes : gathered) text += bytes_to_text(bytes);
    if (!text.empty()) ADD_FAILURE() << text;
  }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::string failures_;
};

}  // namespace

void gather_failures_on_rank_0() {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  auto printer = std::make_unique<GatheringPrinter>();
  if (printer->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(printer.release());
}

}  // namespace tasuki::testing
