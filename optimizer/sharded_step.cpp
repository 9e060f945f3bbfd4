#include "optimizer/sharded_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

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
                                 const ShardSources& sources, std::vector<Range> own)
    : buffers_{buffers_of(model)},
      communicator_(communicator),
      sources_(sources),
      own_(std::move(own)),
      count_(1) {
  for (const Tensor& buffer : buffers_.front()) {
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
  set_copies({});
}

void ShardStatistics::set_copies(std::span<Module* const> copies) {
  buffers_.resize(1);
  for (const Module* copy : copies) {
    buffers_.push_back(buffers_of(*copy));
    TASUKI_CHECK(buffers_.back().size() == before_.size(),
                 "a replica has {} buffers, the model has {}", buffers_.back().size(),
                 before_.size());
  }
  const auto array = [this](std::size_t i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * sources_.stride;
    return memory_.slice(begin, begin + sources_.stride);
  };
  sums_ = std::make_unique<ThreadSums>(sources_.tree, own_, array, count_, buffers_.size());
}

void ShardStatistics::begin_step() {
  for (std::size_t i = 0; i < before_.size(); ++i) before_[i].copy_from(buffers_.front()[i]);
  sums_->begin();
}

void ShardStatistics::begin_shard(std::size_t thread) const {
  for (std::size_t i = 0; i < before_.size(); ++i) buffers_[thread][i].copy_from(before_[i]);
}

void ShardStatistics::end_shard(std::size_t thread, std::int64_t examples) {
  ShardSums& sums = sums_->of(thread);
  if (examples == 0) return sums.add(false);
  const std::vector<Tensor>& buffers = buffers_[thread];
  float* to = sums.next().data<float>();
  const auto weight = static_cast<float>(examples);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::int64_t count = buffers[i].count();
    if (buffers[i].dtype() == DType::float32) {
      const float* const now = buffers[i].data<float>();
      const float* const before = before_[i].data<float>();
      for (std::int64_t j = 0; j < count; ++j) *to++ = weight * (now[j] - before[j]);
    } else {
      const auto* const now = buffers[i].data<std::int64_t>();
      const auto* const before = before_[i].data<std::int64_t>();
      for (std::int64_t j = 0; j < count; ++j)
        *to++ = weight * static_cast<float>(now[j] - before[j]);
    }
  }
  *to = weight;
  sums.add(true);
}

void ShardStatistics::finish() {
  sums_->finish([](const Tensor& root) { root.fill(-0.0); }, {});
  const std::vector<GradientView::Segment> segments{{0, count_}};
  if (communicator_ && communicator_->size() > 1)
    communicator_->sum_gradients({.arena = memory_.slice(0, sources_.stride),
                                  .segments = segments,
                                  .is_agreed = exchanges_++ > 0,
                                  .shards = &sources_});
  begin_shard(0);
  const float* from = memory_.data<float>();
  const float weight = from[count_ - 1];
  if (weight == 0) return;
  for (const Tensor& buffer : buffers_.front()) {
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
  const std::optional<std::int64_t> under_way = threads_.front().shard;
  missing_.reset();
  products_.clear();
  replicas_.clear();
  gradients_.reset();
  statistics_.reset();
  if (!is_on()) return;
  if (!trained_.is_on_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--reproducible and --gpu: shards are added in their order on CPUs only; leave "
                    "one out");
  check();
  if (!trained_.model->buffers().empty())
    statistics_ =
        std::make_unique<ShardStatistics>(*trained_.model, trained_.communicator,
                                          *trained_.arena->shards(), trained_.arena->own_roots());
  divide();
  // Arrays are made again before any shard has had examples.
  if (under_way)
    for (std::int64_t shard = gradients_->shards().begin; shard <= *under_way; ++shard)
      begin_shard(shard);
}

void ShardedStep::set_copies(std::vector<Module*> copies, SpreadUpdate spread) {
  copies_ = std::move(copies);
  spread_ = std::move(spread);
  products_.clear();
  replicas_.clear();
  if (!gradients_) return;
  divide();
  tie_copies();
}

void ShardedStep::divide() {
  const ParameterArena& arena = *trained_.arena;
  threads_.assign(threads(), {});
  gradients_ = std::make_unique<ThreadSums>(
      arena.shards()->tree, arena.own_roots(),
      [this](std::size_t i) { return trained_.arena->shard_array(i); }, arena.update_count(),
      threads());
  if (statistics_) statistics_->set_copies(copies_);
  begin_products();
}

// Of the threads whose models are known.
void ShardedStep::begin_products() {
  products_.clear();
  const ParameterArena& arena = *trained_.arena;
  const ShardTree& tree = arena.shards()->tree;
  for (std::size_t thread = 0; thread < 1 + replicas_.size(); ++thread)
    products_.push_back(std::make_unique<ProductSums>(
        tree, entries_of(thread),
        spare_arrays(tree, tree.roots_of(shards_of(thread))) * arena.gradients().bytes()));
}

void ShardedStep::begin_step() {
  if (copies_.empty()) return;
  give_up();
  if (statistics_) statistics_->begin_step();
  tie_copies();
}

void ShardedStep::tie_copies() {
  if (copies_.empty()) return;
  const ParameterArena& arena = *trained_.arena;
  if (!replicas_.empty() && replicas_.front().follows(arena)) return;
  products_.clear();
  replicas_.clear();
  for (Module* copy : copies_)
    replicas_.emplace_back(*copy, arena, arena.values(), arena.gradients());
  begin_products();
}

void ShardedStep::begin_shard(std::int64_t shard) {
  // The step before may have failed.
  if (copies_.empty() && shard == gradients_->shards().begin &&
      gradients_->of(0).next_shard() != shard)
    give_up();
  const std::size_t thread = gradients_->thread_of(shard);
  Thread& own = threads_[thread];
  if (own.shard) end_shard(thread);
  const ShardSums& sums = gradients_->of(thread);
  TASUKI_CHECK(shard == sums.next_shard(),
               "shard {} begins, but shard {} of this rank's {} to {} is next", shard,
               sums.next_shard(), sums.shards().begin, sums.shards().end - 1);
  own.shard = shard;
  own.examples = 0;
  products_.at(thread)->begin_shard(shard);
  if (!statistics_) return;
  if (copies_.empty() && shard == gradients_->shards().begin) statistics_->begin_step();
  statistics_->begin_shard(thread);
}

void ShardedStep::point_gradients_at(std::size_t thread, const Tensor& array) const {
  if (thread == 0)
    trained_.arena->point_gradients_at(array);
  else
    replicas_[thread - 1].point_gradients_at(array);
}

const std::vector<ParameterArena::Entry>& ShardedStep::entries_of(std::size_t thread) const {
  return thread == 0 ? trained_.arena->entries() : replicas_[thread - 1].entries();
}

void ShardedStep::begin_pass(std::size_t thread, std::int64_t examples) {
  Thread& own = threads_[thread];
  TASUKI_CHECK(own.shard.has_value(),
               "a step of several shards: begin_shard() comes before a pass");
  if (own.examples == 0 && examples > 0) {
    point_gradients_at(thread, gradients_->of(thread).next());
    (thread == 0 ? trained_.model : copies_[thread - 1])->clear_grads();
  }
  own.examples += examples;
}

void ShardedStep::note_loss(std::size_t thread, const Tensor& loss) {
  threads_[thread].losses.push_back(loss);
}

std::vector<Tensor> ShardedStep::losses() const {
  std::vector<Tensor> all;
  for (const Thread& thread : threads_)
    all.insert(all.end(), thread.losses.begin(), thread.losses.end());
  return all;
}

bool ShardedStep::is_last_pass() const {
  const Thread& own = threads_.front();
  return copies_.empty() && own.shard == gradients_->shards().end - 1 && own.examples > 0;
}

void ShardedStep::begin_parts() {
  const ParameterArena& arena = *trained_.arena;
  missing_.emplace();
  for (const ParameterArena::Entry& entry : arena.entries())
    missing_->emplace(entry.parameter, &entry);
  gradients_->of(0).begin_parts([&](const Tensor& root) { clear_root(arena, root); });
  clear_further_notices();
}

void ShardedStep::finish_part(Parameter& parameter) {
  if (!missing_) return;
  const auto entry = missing_->find(&parameter);
  if (entry == missing_->end()) return;
  parameter.fill_missing_grad();
  const ParameterArena::Entry& own = *entry->second;
  ShardSums& sums = gradients_->of(0);
  if (products_.front()->finish_part(own, sums)) sums.add_part(own.offset, own.offset + own.count);
  missing_->erase(entry);
}

void ShardedStep::end_shard(std::size_t thread) {
  Thread& own = threads_[thread];
  if (own.examples > 0)
    for (const ParameterArena::Entry& entry : entries_of(thread))
      entry.parameter->fill_missing_grad();
  if (missing_) {
    while (!missing_->empty()) finish_part(*missing_->begin()->second->parameter);
    gradients_->of(thread).end_parts();
    missing_.reset();
  } else if (own.examples > 0) {
    ShardSums& sums = gradients_->of(thread);
    const std::vector<Range> elements =
        products_.at(thread)->end_shard(sums, trained_.arena->update_count());
    sums.add(true, &elements);
  } else {
    gradients_->of(thread).add(false);
  }
  if (statistics_) statistics_->end_shard(thread, own.examples);
  own.shard.reset();
}

void ShardedStep::end_thread(std::size_t thread) {
  if (threads_[thread].shard) end_shard(thread);
  products_.at(thread)->finish(gradients_->of(thread));
}

void ShardedStep::finish() {
  const bool may_travel = missing_.has_value();
  for (std::size_t thread = 0; thread < threads(); ++thread) {
    end_thread(thread);
    threads_[thread].losses.clear();
  }
  const ParameterArena& arena = *trained_.arena;
  arena.point_gradients_at(arena.gradients());
  // Without examples no gradient was written.
  for (const ParameterArena::Entry& entry : arena.entries()) entry.parameter->fill_missing_grad();
  gradients_->finish([&](const Tensor& root) { clear_root(arena, root); }, spread_);
  for (const auto& products : products_) products->clear();
  if (!may_travel) clear_further_notices();
}

void ShardedStep::clear_root(const ParameterArena& arena, const Tensor& root) {
  for (const ParameterArena::Entry& entry : arena.entries())
    ParameterArena::part(root, entry).fill(-0.0);
}

// Notices are in the first array; an exchange may have left sums of them in others.
void ShardedStep::clear_further_notices() const {
  const ParameterArena& arena = *trained_.arena;
  for (std::size_t i = 1; i < arena.own_roots().size(); ++i)
    arena.shard_array(i).slice(arena.update_count(), arena.gradients().count()).fill(0);
}

void ShardedStep::finish_statistics() {
  if (statistics_) statistics_->finish();
}

void ShardedStep::give_up() {
  if (!gradients_) return;
  const bool has_begun = gradients_->has_begun() || threads_.front().shard.has_value();
  if (statistics_ && has_begun) statistics_->give_up();
  threads_.assign(threads(), {});
  missing_.reset();
  for (const auto& products : products_) products->clear();
  gradients_->begin();
  trained_.arena->point_gradients_at(trained_.arena->gradients());
}

}  // namespace tasuki
