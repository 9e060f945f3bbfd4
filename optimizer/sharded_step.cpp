#include "optimizer/sharded_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

std::size_t rank_of(const Communicator* communicator) {
  return communicator ? static_cast<std::size_t>(communicator->rank()) : 0;
}

std::vector<Tensor> buffers_of(const Module& model) {
  std::vector<Tensor> buffers;
  for (const Module::NamedBuffer& buffer : model.buffers()) {
    const DType type = buffer.tensor->dtype();
    if (type != DType::float32 && type != DType::int64)
      fail_everywhere(ErrorKind::usage,
                      "--reproducible: buffer {} has type {}; expected float32 or int64",
                      buffer.path, name_of(type));
    buffers.push_back(*buffer.tensor);
  }
  return buffers;
}

}  // namespace

ShardStatistics::ShardStatistics(const Module& model, Communicator* communicator,
                                 const ShardSources& sources)
    : buffers_(buffers_of(model)), communicator_(communicator), sources_(sources), count_(1) {
  for (const Tensor& buffer : buffers_) {
    before_.push_back(buffer.clone());
    count_ += buffer.count();
  }
  sources_.stride = (count_ + 15) / 16 * 16;
  const std::size_t arrays = communicator ? communicator->arrays_for(sources_) : sources_.most();
  const std::int64_t elements = static_cast<std::int64_t>(arrays) * sources_.stride;
  memory_ = communicator
                ? Tensor(communicator->allocate(static_cast<std::size_t>(elements) * sizeof(float)),
                         0, {elements}, DType::float32)
                : Tensor::zeros({elements});
  const auto array = [this](std::size_t i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * sources_.stride;
    return memory_.slice(begin, begin + sources_.stride);
  };
  sums_ = std::make_unique<ShardSums>(sources_.tree, sources_.of_group[rank_of(communicator)],
                                      array, count_);
}

void ShardStatistics::begin_step() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_from(buffers_[i]);
  sums_->begin();
}

void ShardStatistics::restore() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_from(before_[i]);
}

void ShardStatistics::begin_shard() {
  restore();
}

void ShardStatistics::end_shard(std::int64_t examples) {
  if (examples == 0) return sums_->add(false);
  float* to = sums_->next().data<float>();
  const auto weight = static_cast<float>(examples);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::int64_t count = buffers_[i].count();
    if (buffers_[i].dtype() == DType::float32) {
      const float* const now = buffers_[i].data<float>();
      const float* const before = before_[i].data<float>();
      for (std::int64_t j = 0; j < count; ++j) *to++ = weight * (now[j] - before[j]);
    } else {
      const auto* const now = buffers_[i].data<std::int64_t>();
      const auto* const before = before_[i].data<std::int64_t>();
      for (std::int64_t j = 0; j < count; ++j)
        *to++ = weight * static_cast<float>(now[j] - before[j]);
    }
  }
  *to = weight;
  sums_->add(true);
}

void ShardStatistics::finish() {
  sums_->finish([](const Tensor& root) { root.fill(-0.0); });
  const std::vector<GradientView::Segment> segments{{0, count_}};
  if (communicator_ && communicator_->size() > 1)
    communicator_->sum_gradients({.arena = memory_.slice(0, sources_.stride),
                                  .segments = segments,
                                  .is_agreed = exchanges_++ > 0,
                                  .shards = &sources_});
  restore();
  const float* from = memory_.data<float>();
  const float weight = from[count_ - 1];
  if (weight == 0) return;
  for (const Tensor& buffer : buffers_) {
    const std::int64_t count = buffer.count();
    if (buffer.dtype() == DType::float32) {
      auto* const values = buffer.data<float>();
      for (std::int64_t j = 0; j < count; ++j) values[j] += *from++ / weight;
    } else {
      auto* const values = buffer.data<std::int64_t>();
      for (std::int64_t j = 0; j < count; ++j) values[j] += std::llround(*from++ / weight);
    }
  }
}

// What a model and its ranks need, for which no message is needed.
void ShardedStep::check() const {
  const auto refuse = [](const char* what) {
    fail_everywhere(ErrorKind::usage, "steps of shards (Optimizer::set_shards, --reproducible): {}",
                    what);
  };
  const Communicator* const ranks = trained_.communicator;
  if (trained_.model->communicates())
    refuse("layers of the model exchange messages, which need all shards at once");
  if (!trained_.has_peers()) return;
  if (!ranks->adds_shards())
    fail_everywhere(ErrorKind::usage,
                    "communicator {} does not add sums of shards in their order (adds_shards())",
                    ranks->name());
  if (ranks->options().wire_dtype != DType::float32)
    refuse("gradients must travel as float32 (--wire-dtype)");
}

void ShardedStep::follow_arena() {
  const std::optional<std::int64_t> under_way = std::exchange(shard_, std::nullopt);
  gradients_.reset();
  statistics_.reset();
  if (!is_on()) return;
  const ParameterArena& arena = *trained_.arena;
  if (!trained_.is_on_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--reproducible and --gpu: shards are added in their order on CPUs only; leave "
                    "one out");
  check();
  const ShardSources& sources = *arena.shards();
  gradients_ = std::make_unique<ShardSums>(
      sources.tree, sources.of_group[rank_of(trained_.communicator)],
      [this](std::size_t i) { return trained_.arena->shard_array(i); }, arena.update_count());
  if (!trained_.model->buffers().empty())
    statistics_ =
        std::make_unique<ShardStatistics>(*trained_.model, trained_.communicator, sources);
  // Arrays are made again before any shard has had examples.
  if (under_way)
    for (std::int64_t shard = gradients_->shards().begin; shard <= *under_way; ++shard)
      begin_shard(shard);
}

void ShardedStep::begin_shard(std::int64_t shard) {
  // The step before may have failed.
  if (shard == gradients_->shards().begin && gradients_->next_shard() != shard) give_up();
  if (shard_) end_shard();
  const bool is_first = gradients_->next_shard() == gradients_->shards().begin;
  TASUKI_CHECK(shard == gradients_->next_shard(),
               "shard {} begins, but shard {} of this rank's {} to {} is next", shard,
               gradients_->next_shard(), gradients_->shards().begin, gradients_->shards().end - 1);
  shard_ = shard;
  examples_ = 0;
  if (!statistics_) return;
  if (is_first)
    statistics_->begin_step();
  else
    statistics_->begin_shard();
}

void ShardedStep::begin_pass(std::int64_t examples) {
  TASUKI_CHECK(shard_.has_value(), "a step of several shards: begin_shard() comes before a pass");
  if (examples_ == 0 && examples > 0) {
    trained_.arena->point_gradients_at(gradients_->next());
    trained_.model->clear_grads();
  }
  examples_ += examples;
}

void ShardedStep::end_shard() {
  if (examples_ > 0)
    for (const ParameterArena::Entry& entry : trained_.arena->entries())
      entry.parameter->fill_missing_grad();
  gradients_->add(examples_ > 0);
  if (statistics_) statistics_->end_shard(examples_);
  shard_.reset();
}

void ShardedStep::finish() {
  if (shard_) end_shard();
  const ParameterArena& arena = *trained_.arena;
  arena.point_gradients_at(arena.gradients());
  // Without examples no gradient was written.
  for (const ParameterArena::Entry& entry : arena.entries()) entry.parameter->fill_missing_grad();
  gradients_->finish([&arena](const Tensor& root) {
    for (const ParameterArena::Entry& entry : arena.entries())
      ParameterArena::part(root, entry).fill(-0.0);
  });
  // Notices are in the first array; an exchange may have left sums of them in others.
  const std::size_t arrays = arena.shards()->of_group[rank_of(trained_.communicator)].size();
  for (std::size_t i = 1; i < arrays; ++i)
    arena.shard_array(i).slice(arena.update_count(), arena.gradients().count()).fill(0);
}

void ShardedStep::finish_statistics() {
  if (statistics_) statistics_->finish();
}

void ShardedStep::give_up() {
  if (!gradients_) return;
  if (statistics_ && (shard_ || gradients_->next_shard() != gradients_->shards().begin))
    statistics_->give_up();
  shard_.reset();
  gradients_->begin();
  trained_.arena->point_gradients_at(trained_.arena->gradients());
}

}  // namespace tasuki
