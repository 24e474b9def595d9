// Pictures in, logits out, in input order: one reader walks the inputs, workers decode and
// transform ahead of the model, the calling thread forms batches of equal size and runs the model.
// Memory is bounded by a window of inputs and a budget of bytes, never by how many inputs there
// are.
#pragma once

#include "app/pictures/inputs.h"
#include "app/pipeline/trained_size.h"
#include "app/results/classify_record.h"
#include "app/scores/class_scores.h"
#include "model/image/decode.h"
#include "model/image/video.h"
#include "model/inference/engine.h"
#include "model/transform.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct PipelineResult;

struct PipelineOptions {
  image::TransformConfig transform;
  image::DecodeOptions decode;
  int workers = 1;
  std::int64_t batch_size = 0;    ///< 0: chosen by the number of tokens
  std::int64_t video_stride = 0;  ///< every so many frames; 0: one a second, by their time stamps
  /// The weight of a frame's logits over the next frame's in the mean that answers; 0: each frame's own
  /// answer.
  double video_average = 0;
  /// Bytes of pictures and tokens that may wait.
  std::int64_t memory_budget = std::int64_t{1} << 30;
  bool keep_input = true;     ///< results have their `tensor`
  bool keep_picture = false;  ///< results have their picture's pixels, as decoded
  bool refuses_nan = true;    ///< logits that are not finite are their picture's failure
  bool halve_batches = true;  ///< what does not fit is tried in halves; else it ends the run
  /// Whether results come in the order of their inputs. Else each comes as soon as it is there.
  bool in_order = true;
  bool ends_on_signal = true;  ///< `stop_requested` ends the run
  /// LibTorch's loops of a worker stay on that worker's thread. In a process where OpenMP's threads
  /// spin, which the program's front sees to that they do not, others would take the processors.
  bool serial_workers = false;
  /// Seconds that a picture waits for others of its size while some are being decoded and the model
  /// has nothing to do; without, all that is decoded is waited for, or a whole batch.
  std::optional<double> patience = {};
  /// The batches depend on the pictures alone, not on how fast they come: products in LibTorch round
  /// by the number of rows. A slow source then waits for a whole batch.
  bool whole_batches = false;
  /// Is told of what changes on the way; may be empty.
  std::function<void(const std::string&)> notice;
  /// Is told of every batch, on the calling thread: its images, and their seconds; may be empty.
  std::function<void(std::int64_t, double)> batch_done;
  /// Is told by the CPU's plan, on the calling thread, of each layer that a batch has passed: the layers that are
  /// done, all layers, and the pictures; must not throw, may be empty.
  std::function<void(std::int64_t done, std::int64_t all, double pictures)> layer_done;
  /// Throws Error for an input whose result nobody wants any more, which then fails with it: asked
  /// on several threads, before the picture is decoded and before its batch is computed; may be
  /// empty.
  std::function<void(const Input&)> check_wanted;
  /// `notice` is told its first remark on a batch, before the batch is computed; nothing: none is made.
  std::optional<TrainedSize> trained_size = {};
  /// The model that says which parts of a large picture are worth a view: it is given those instead of the model that
  /// answers, and their results have their `pixels`.
  struct Finder {
    image::TransformConfig transform;
    model::inference::Engine* engine = nullptr;
    bool leaves_frames = false;  ///< frames of videos are one view each
  };
  std::optional<Finder> finder = {};
  /// Whether parts of a picture are worth a view. Parts of one below twice the edge of the model's input would be
  /// enlarged; of one twice as long as wide a view of all of it is coarse.
  [[nodiscard]] bool has_parts(const image::Size& picture, bool is_frame) const;
};

/// The engine and the transform that see a picture first: the run's, or those of `PipelineOptions::finder`.
struct Seer {
  model::inference::Engine* engine = nullptr;
  const image::TransformConfig* transform = nullptr;
  bool is_finder = false;
};

/// A part of a picture as the model saw it.
struct SeenView {
  Box box;                                 ///< in pixels of the picture
  image::TransformPlan plan = {};          ///< from the box to the model's input
  double weight = 1;                       ///< in the answer; all views' add up to one
  std::vector<double> probabilities = {};  ///< by class
  at::Tensor tokens = {};                  ///< as the result's
};

/// A picture at a model's exits.
struct PictureExit {
  std::optional<std::int64_t> layer =
      {};  ///< the layer that it left behind; nothing if none may leave
  struct Watched {
    float score = 0;
    std::int64_t class_index = 0;
  };
  std::vector<Watched> watched = {};  ///< all exits, where they are watched
};

/// The result of one input (or one frame of a video).
struct PipelineResult {
  Input input;
  std::optional<std::int64_t> frame;
  std::optional<double> time;  ///< of a frame, in seconds from the first
  image::VideoFacts video;     ///< of a frame
  image::Size picture;         ///< after EXIF orientation
  image::Size model_size;
  std::string note;                ///< "padded 1080x1920 to 1088x1920 (HxW)"
  image::TransformPlan plan = {};  ///< from the picture to what the model sees of all of it
  at::Tensor tensor;  ///< for the model: (3, H, W) float32, or bytes (h, w, 3) where it takes those
                      ///< (see `model_input`); undefined on error
  image::Picture pixels;  ///< with `keep_picture`, and where parts are to be seen
  Seer seer;              ///< of a picture that could be decoded
  at::Tensor logits;      ///< (num_classes) float32; undefined on error; of several views the
                          ///< logarithms of their mixture
  ClassScores scores;     ///< of the logits; none on error
  PictureExit exit = {};
  at::Tensor features = {};          ///< (D) float32, where the engine gives them
  at::Tensor tokens = {};            ///< traced tokens, float32 (layers, N, D); undefined on error
  std::vector<SeenView> views = {};  ///< of a picture that is seen in parts
  double seconds = 0;                ///< the batch's model time / its images, and of its views
  std::int64_t batch_size = 1;       ///< images of that batch
  std::optional<ErrorCode> error;
  std::string message;
};

/// The time of a run by its parts; "core seconds" add up over workers.
struct PipelineTiming {
  std::int64_t images = 0;  ///< classified, failed ones not counted
  double seconds = 0;       ///< from the call's begin to its end
  double decode_core_seconds = 0;
  double transform_core_seconds = 0;
  double model_seconds = 0;  ///< the calling thread inside the model
  double wait_seconds = 0;   ///< the calling thread waiting for pictures
  PipelineTiming& operator+=(const PipelineTiming& other);
};

/// Calls `next` (on another thread, one call at a time) until it returns nothing and `done` (on
/// this thread, in input order, as soon as a result and all before it exist, unless the options say
/// otherwise) for every result, which `done` may take apart; it returns false to end early. A failing input becomes a result
/// with an error; an exception from `done`, `next` or the model's code (out of memory excepted: it
/// halves the batch for pictures of that size, and fails the input that does not fit alone) ends
/// the run and is rethrown here. An engine with a memory gets the frames of a video one by one.
PipelineTiming run_pipeline(const std::function<std::optional<Input>()>& next,
                            model::inference::Engine& model, const PipelineOptions& options,
                            const std::function<bool(PipelineResult&)>& done);

/// A decoded picture, on the calling thread: the options' transform and the model.
PipelineResult look_at(image::Picture& picture, model::inference::Engine& model,
                       const PipelineOptions& options);

/// The model's input, whichever way it was handed over: float32 (3, H, W), normalised.
at::Tensor model_input(const PipelineResult& result);

}  // namespace hydrascope::app
