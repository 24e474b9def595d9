#include "app/pipeline/pipeline.h"

#include "app/options/requests.h"
#include "app/pipeline/batch_groups.h"
#include "app/pipeline/picture_job.h"
#include "app/pipeline/predictions.h"
#include "app/run/signal_stop.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"
#include "model/inference/one_torch_thread.h"
#include "model/inference/overlap.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hydrascope::app {

PipelineTiming& PipelineTiming::operator+=(const PipelineTiming& other) {
  images += other.images;
  for (double PipelineTiming::*member :
       {&PipelineTiming::seconds, &PipelineTiming::decode_core_seconds,
        &PipelineTiming::transform_core_seconds, &PipelineTiming::model_seconds,
        &PipelineTiming::wait_seconds})
    this->*member += other.*member;
  return *this;
}

namespace {

using Item = PipelineItem;

model::inference::ImageBatch batch_of(std::vector<at::Tensor> images, const image::Size& size,
                                      const image::TransformConfig& transform) {
  return {std::move(images), {}, size.height, size.width, transform.mean, transform.std};
}

PictureExit exit_of(const model::inference::ExitOutputs& exits, std::int64_t image) {
  PictureExit exit;
  if (exits.layers.defined()) exit.layer = exits.layers.const_data_ptr<std::int64_t>()[image];
  if (!exits.scores.defined()) return exit;
  const std::int64_t count = exits.scores.size(1);
  const float* const scores = exits.scores.const_data_ptr<float>() + image * count;
  const std::int64_t* const classes = exits.classes.const_data_ptr<std::int64_t>() + image * count;
  for (std::int64_t i = 0; i < count; ++i) exit.watched.push_back({scores[i], classes[i]});
  return exit;
}

class Pipeline {
 public:
  Pipeline(const std::function<std::optional<Input>()>& next, model::inference::Engine& model,
           const PipelineOptions& options, const std::function<bool(PipelineResult&)>& done)
      : next_(next),
        model_(model),
        options_(options),
        done_(done),
        most_under_way_(model::inference::most_under_way(model)),
        remembers_(!model.options().memory.empty()),
        groups_(remembers_ ? 1 : options.batch_size) {
    const std::int64_t largest_batch =
        remembers_               ? 1
        : options.batch_size > 0 ? options.batch_size
                                 : std::clamp<std::int64_t>(model.enough_tokens() / kFewTokens, 1,
                                                            BatchGroups::kMostAutomaticBatch);
    // Batches under way, one that is gathered meanwhile, and what the workers hold.
    window_ = (most_under_way_ + 1) * largest_batch + 2 * options.workers;
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  PipelineTiming run() {
    const Clock::time_point begin = Clock::now();
    kernels::device::start_threads(threads_, 1, [this](int) { read(); });
    // One worker keeps the order of frames.
    kernels::device::start_threads(threads_, remembers_ ? 1 : options_.workers,
                                   [this](int) { work(); });
    bool go_on = true;
    while (go_on) {
      // While the model is at work nothing is waited for but the model.
      std::vector<Item> batch = take_batch(/*wait=*/under_way_.empty());
      const bool nothing_new = batch.empty();
      if (!nothing_new) start(std::move(batch));
      go_on = emit();
      if (!go_on || (nothing_new && under_way_.empty() && finished_)) break;
      if (!under_way_.empty() && (nothing_new || std::ssize(under_way_) >= most_under_way_)) {
        finish_oldest();
        go_on = emit();
      }
    }
    timing_.seconds = seconds_since(begin);
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return timing_;
  }

 private:
  static constexpr std::int64_t kFewTokens = 25;  // of a small image

  void read() {
    const model::inference::OneTorchThread serial(options_.serial_workers);
    try {
      while (std::optional<Input> input = next_()) {
        if (input->is_video && !input->error) {
          if (!read_video(*input)) break;
        } else if (!push({.input = std::move(*input)})) {
          break;
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!is_stopped()) failure_ = std::current_exception();  // a stop ends a list in its middle
    }
    const std::lock_guard lock(mutex_);
    reading_ = false;
    changed_.notify_all();
  }

  bool read_video(const Input& input) {
    std::optional<image::VideoReader> video;
    bool has_frames = false;
    try {
      video.emplace(input.path, options_.video_stride);
      image::VideoFacts facts = video->facts();
      if (options_.keep_picture) facts.copy_rate = video->copy_rate();
      while (std::optional<image::VideoFrame> read = video->next()) {
        has_frames = true;
        PictureJob frame{.input = input,
                         .frame = read->number,
                         .time = read->seconds,
                         .video = facts,
                         .note = !read->is_estimated ? ""
                                 : read->seconds ? "no time stamp: timed by the average frame rate"
                                                 : "no time stamp",
                         .picture = std::make_shared<image::Picture>(std::move(read->picture))};
        if (!push(std::move(frame))) return false;
      }
      return true;
    } catch (const Error& error) {
      PictureJob failed{.input = input};
      failed.input.error = error.code();
      failed.input.message = error.what();
      if (has_frames) failed.frame = video->position();
      return push(std::move(failed));
    }
  }

  /// Waits for a place in the window; false when the run is over.
  bool push(PictureJob job) {
    std::unique_lock lock(mutex_);
    const auto has_place = [this] { return stopping_ || sequence_ - emitted_ < window_; };
    if (!has_place()) {
      is_window_full_ = true;
      changed_.notify_all();
      changed_.wait(lock, has_place);
      is_window_full_ = false;
    }
    if (stopping_) return false;
    job.sequence = sequence_++;
    jobs_.push_back(std::move(job));
    ++in_flight_;
    changed_.notify_all();
    return true;
  }

  void work() {
    const model::inference::OneTorchThread serial(options_.serial_workers);
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        if (stopping_ || jobs_.empty()) return stopping_ || !reading_;
        // The oldest input may always go on: everything else may be waiting for it.
        return waiting_bytes_ < options_.memory_budget || jobs_.front().sequence == emitted_;
      });
      if (stopping_ || jobs_.empty()) return;
      PictureJob job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      CoreSeconds seconds;
      const std::int64_t sequence = job.sequence;
      Item item{sequence, prepare(std::move(job), options_, model_, seconds)};
      lock.lock();
      if (item.result.error && is_stopped()) return;  // a stop ends a picture in its middle, too
      timing_.decode_core_seconds += seconds.decode;
      timing_.transform_core_seconds += seconds.transform;
      --in_flight_;
      waiting_bytes_ += byte_size(item.result);
      item.ready = Clock::now();
      if (item.result.error)
        finish(item);
      else
        groups_.add(std::move(item));
      changed_.notify_all();
    }
  }

  /// A batch that the model computes, and since when.
  struct UnderWay {
    std::vector<Item> items;
    Clock::time_point begin;
    model::inference::PendingBatch outputs;
  };

  [[nodiscard]] bool is_stopped() const { return options_.ends_on_signal && stop_requested(); }

  /// The next result that can be handed out.
  std::map<std::int64_t, PipelineResult>::iterator first_finished() {
    return options_.in_order ? finished_items_.find(emitted_) : finished_items_.begin();
  }

  /// The next batch; empty when there is something to emit or nothing will come any more
  /// (`finished_`); without `wait` also when there is no full one yet.
  std::vector<Item> take_batch(bool wait) {
    const Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    if (!wait && !failure_ && !is_stopped() && !groups_.has_full()) return {};
    const auto nothing_comes = [&] {
      return in_flight_ == 0 && (!options_.whole_batches || !reading_ || is_window_full_);
    };
    // A picture has waited long enough for others of its size.
    const auto patience_ends = [&] {
      return options_.patience && !groups_.empty() &&
             seconds_since(groups_.waiting_since()) >= *options_.patience;
    };
    const auto can_emit = [&] { return first_finished() != finished_items_.end(); };
    const auto ready = [&] {
      return failure_ || can_emit() || groups_.has_full() || patience_ends() ||
             (nothing_comes() && !groups_.empty()) ||
             (waiting_bytes_ >= options_.memory_budget && !groups_.empty()) ||
             (nothing_comes() && !reading_);
    };
    // Neither a signal nor the end of patience wakes the condition variable, hence the time limit.
    constexpr double kLongestWait = 0.1;
    const std::chrono::duration<double> limit(
        std::min(options_.patience.value_or(kLongestWait), kLongestWait));
    while (!changed_.wait_for(lock, limit, ready)) {
      if (is_stopped()) break;
    }
    timing_.wait_seconds += seconds_since(begin);
    std::vector<Item> batch;
    if (failure_ || is_stopped()) {
      finished_ = true;
      return batch;
    }
    if (can_emit() && !groups_.has_full()) return batch;
    // Inputs that wait for the oldest one could fill the memory, and frames come in their order.
    batch = groups_.take(
        /*full_first=*/!remembers_ && waiting_bytes_ < options_.memory_budget);
    if (batch.empty()) finished_ = !reading_ && in_flight_ == 0;
    return batch;
  }

  void start(std::vector<Item> items) {
    const Clock::time_point begin = Clock::now();
    drop_unwanted(items);
    if (items.empty()) return;
    const image::Size size = items.front().result.model_size;
    if (options_.trained_size && options_.notice && !is_size_remarked_) {
      const std::string remark = options_.trained_size->remark(size);
      is_size_remarked_ = !remark.empty();
      if (is_size_remarked_) options_.notice("note: " + remark);
    }
    std::vector<at::Tensor> images;
    for (const Item& item : items) images.push_back(item.result.tensor);
    const Seer seer = items.front().result.seer;
    model::inference::ImageBatch batch = batch_of(std::move(images), size, *seer.transform);
    batch.goes_on = remembers_ && frames_.follows(items.front().result);
    if (options_.layer_done) {
      const auto pictures = static_cast<double>(items.size());
      batch.block_done = [this, pictures, all = seer.engine->config().depth](std::int64_t done) {
        options_.layer_done(done, all, pictures);
      };
    }
    try {
      model::inference::PendingBatch outputs = model::inference::start(*seer.engine, batch);
      under_way_.push_back({std::move(items), begin, std::move(outputs)});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported_format)  // a frame of another size
        fail(items.front(), error);
      else if (error.code() == ErrorCode::out_of_memory && options_.halve_batches)
        halve(std::move(items), error);
      else
        throw;
    }
    timing_.model_seconds += seconds_since(begin);
  }

  /// A batch that nobody waits for any more fails instead of being computed.
  void drop_unwanted(std::vector<Item>& items) {
    if (!options_.check_wanted) return;
    std::erase_if(items, [this](Item& item) {
      try {
        options_.check_wanted(item.result.input);
        return false;
      } catch (const Error& error) {
        fail(item, error);
        return true;
      }
    });
  }

  void fail(Item& item, const Error& error) {
    item.result.error = error.code();
    item.result.message = error.what();
    const std::lock_guard lock(mutex_);
    waiting_bytes_ -= byte_size(item.result);
    item.result.tensor.reset();
    item.result.pixels = {};
    finish(item);
  }

  /// The batch did not fit: half of it is tried next, or its only input has failed.
  void halve(std::vector<Item> items, const Error& error) {
    const image::Size size = items.front().result.model_size;
    const auto half = static_cast<std::int64_t>(items.size()) / 2;
    if (half == 0) return fail(items.front(), error);
    if (options_.notice) {
      std::ostringstream text;
      text << "note: not enough memory for " << items.size() << " pictures of " << size.height
           << "x" << size.width << " at once, going on with " << half;
      options_.notice(text.str());
    }
    const std::lock_guard lock(mutex_);
    groups_.put_back(std::move(items), half);
  }

  void finish_oldest() {
    const Clock::time_point begin = Clock::now();
    UnderWay batch = std::move(under_way_.front());
    under_way_.pop_front();
    const auto [logits, tokens, features, exits] = batch.outputs.get();
    // Batches that overlap share their time.
    const double seconds =
        seconds_since(std::max(batch.begin, last_end_)) / static_cast<double>(batch.items.size());
    last_end_ = Clock::now();
    timing_.model_seconds += seconds_since(begin);
    const auto images = static_cast<std::int64_t>(batch.items.size());
    if (options_.batch_done) options_.batch_done(images, seconds * static_cast<double>(images));
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      PipelineResult& result = batch.items[i].result;
      const auto index = static_cast<std::int64_t>(i);
      result.logits = logits.select(0, index);
      if (features.defined()) result.features = features.select(0, index);
      if (options_.refuses_nan) require_finite_logits(result);
      waiting_bytes_ -= byte_size(result);
      if (!options_.keep_input || result.error) result.tensor.reset();
      if (tokens.defined()) result.tokens = tokens.select(0, index);
      result.exit = exit_of(exits, index);
      waiting_bytes_ += byte_size(result);
      result.seconds = seconds;
      result.batch_size = images;
      finish(batch.items[i]);
    }
  }

  /// Under the mutex.
  void finish(Item& item) { finished_items_.emplace(item.sequence, std::move(item.result)); }

  /// Hands out what is complete. Returns false when the caller has had enough.
  bool emit() {
    while (true) {
      PipelineResult result;
      {
        const std::lock_guard lock(mutex_);
        const auto first = first_finished();
        if (first == finished_items_.end()) return true;
        result = std::move(first->second);
        finished_items_.erase(first);
        waiting_bytes_ -= byte_size(result);
        ++emitted_;
      }
      changed_.notify_all();
      if (!result.error) ++timing_.images;
      if (!done_(result)) return false;
    }
  }

  const std::function<std::optional<Input>()>& next_;
  model::inference::Engine& model_;
  const PipelineOptions& options_;
  const std::function<bool(PipelineResult&)>& done_;
  int most_under_way_;
  std::int64_t window_ = 0;
  bool remembers_ = false;  // the model takes one picture at a time, frames in their order
  FollowedFrames frames_;   // that it was given
  std::deque<UnderWay> under_way_;
  Clock::time_point last_end_{};  // of a batch
  bool is_size_remarked_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  // Everything below is guarded by mutex_; timing_'s model and wait parts belong to the calling
  // thread.
  std::deque<PictureJob> jobs_;
  BatchGroups groups_;
  std::map<std::int64_t, PipelineResult> finished_items_;
  std::int64_t sequence_ = 0;       // of the next input
  std::int64_t emitted_ = 0;        // inputs handed out
  std::int64_t in_flight_ = 0;      // with the workers or waiting for them
  std::int64_t waiting_bytes_ = 0;  // of all results that are not handed out
  bool reading_ = true;
  bool is_window_full_ = false;  // the reader waits
  bool stopping_ = false;
  bool finished_ = false;
  std::exception_ptr failure_;
  PipelineTiming timing_;
};

}  // namespace

PipelineTiming run_pipeline(const std::function<std::optional<Input>()>& next,
                            model::inference::Engine& model, const PipelineOptions& options,
                            const std::function<bool(PipelineResult&)>& done) {
  FrameAverage average(options.video_average);
  const std::function<bool(PipelineResult&)> add = [&](PipelineResult& result) {
    average.add(result);
    finish_result(result);
    return done(result);
  };
  return Pipeline(next, model, options, add).run();
}

PipelineResult look_at(image::Picture& picture, model::inference::Engine& model,
                       const PipelineOptions& options) {
  PictureJob job;
  job.picture = {std::shared_ptr<void>(), &picture};  // the caller's
  CoreSeconds seconds;
  PipelineResult result = prepare(std::move(job), options, model, seconds);
  if (!result.error) {
    auto [logits, tokens, features, exits] = result.seer.engine->compute(
        batch_of({result.tensor}, result.model_size, *result.seer.transform));
    result.logits = logits.select(0, 0);
    if (features.defined()) result.features = features.select(0, 0);
    if (tokens.defined()) result.tokens = tokens.select(0, 0);
    result.exit = exit_of(exits, 0);
    require_finite_logits(result);
  }
  finish_result(result);
  return result;
}

}  // namespace hydrascope::app
