#include "optimizer/finite_guard.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki {

void FiniteGuard::share_flag(const FiniteGuard& other) {
  TASUKI_CHECK(found_.device() == other.found_.device(), "models on {} and {} share a flag",
               found_.device().text(), other.found_.device().text());
  found_ = other.found_;
}

// The copies keep their places, which recorded steps know.
void FiniteGuard::begin(const Module& model) {
  found_.fill(0);
  const std::vector<Module::NamedBuffer> buffers = model.buffers();
  const auto fits = [](const Module::NamedBuffer& buffer, const Tensor& kept) {
    return buffer.tensor->shape() == kept.shape() && buffer.tensor->dtype() == kept.dtype();
  };
  if (!std::ranges::equal(buffers, kept_, fits)) {
    kept_.clear();
    for (const Module::NamedBuffer& buffer : buffers) kept_.push_back(buffer.tensor->clone());
    return;
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) kept_[i].copy_from(*buffers[i].tensor);
}

void FiniteGuard::note_loss(const Tensor& notice, const Tensor& loss, bool is_further_batch) {
  if (!is_further_batch) notice.fill(0);
  if (loss.defined() && loss.count() == 1 && loss.device() == notice.device())
    backend(notice.device()).accumulate(notice.reshape(loss.shape()), loss, 0);
}

void FiniteGuard::search(const Tensor& values) const {
  backend(values.device()).find_non_finite(values, found_);
}

void FiniteGuard::restore(const Module& model) const {
  const std::vector<Module::NamedBuffer> buffers = model.buffers();
  for (std::size_t i = 0; i < std::min(buffers.size(), kept_.size()); ++i)
    buffers[i].tensor->copy_from(kept_[i]);
}

}  // namespace tasuki
