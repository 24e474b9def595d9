// The values of the options that several commands share: each command fills these once from its
// command line, and its parts take them.
#pragma once

#include "app/options/options.h"
#include "app/results/classify_record.h"
#include "app/results/format.h"
#include "app/run/console.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/config/config.h"
#include "model/image/decode.h"
#include "model/image/transform_plan.h"
#include "model/registry/attention_spec.h"
#include "model/training/parallel/launch_environment.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// Which model, with which attention and classifier.
struct ModelRequest {
  std::string word = {};        ///< `-m`: a name, file or folder; "" is the bundled model
  std::string checkpoint = {};  ///< weights of an architecture that `word` names
  bool use_ema = false;
  std::string adapter = {};  ///< `--adapter`: a folder of PEFT; "" is none
  std::optional<std::int64_t> num_classes = {};
  bool reset_head = false;
  bool may_be_random = false;  ///< the command trains or writes a model, and answers nothing
  std::string attention = {};  ///< a spec; "" is the checkpoint's
  std::vector<std::string> attention_options = {};
  std::string rel_pos = {};  ///< a spec of position rules; "" is the checkpoint's
  std::vector<std::string> rel_pos_options = {};
  std::optional<model::PosEmbed> pos_embed = {};
  std::optional<model::PosInterp> pos_interp = {};
  std::optional<bool> overview = {};
  std::vector<std::int64_t> coarse_exits = {};  ///< none: the checkpoint's exits
  std::optional<model::ExitRule> exit_rule = {};
  std::optional<double> exit_threshold = {};
  std::optional<std::int64_t> depth_steps = {};  ///< passes through shared blocks
  // By `--set` of `train`:
  std::optional<model::Residual> residual = {};
  std::optional<std::int64_t> share_blocks = {};
  std::optional<bool> step_embed = {};
  std::optional<bool> halting = {};
  std::optional<double> gate_scale = {};
  std::optional<double> gate_center = {};
  std::string classes =
      {};  ///< `--classes`: a file of class vectors, in the place of the classifier
  bool may_lack_classes = false;  ///< the command has a use for a model without a classifier
  bool is_default = false;        ///< `choose_model` chose it
};
ModelRequest model_request(const ParsedOptions& options);

/// How pictures are prepared, where the model's own way is not to be taken.
struct TransformRequest {
  std::optional<Asked<image::Size>> img_size = {};
  std::optional<Asked<double>> crop_pct = {};
  std::optional<Asked<image::CropMode>> crop_mode = {};
  std::optional<Asked<image::Interpolation>> interpolation = {};
  std::optional<Asked<std::array<double, 3>>> mean = {};
  std::optional<Asked<std::array<double, 3>>> std = {};
  std::optional<image::Fit> fit = {};  ///< otherwise pad; corner at the size that the model is for
  std::optional<Asked<image::Views>> views = {};
  bool is_default = false;  ///< nothing was asked for, and `choose_views` chose `views`
};
/// Throws Error(invalid_argument) for options that do not go together.
TransformRequest transform_request(const ParsedOptions& options);

/// The meaning of `--set exif=auto`: `upright` to look at pictures. Training and scores take pictures
/// as they are stored, as the tools behind published scores do.
enum class AutoExif { upright, as_stored };

// The default model and the default views of the command line, of Python, of the library and of a request to `serve`.

/// The model where none was named: the one for large pictures where they are seen at their own size, else the
/// default model. Leaves a model that was named as it is.
void choose_model(ModelRequest& model, const std::optional<Asked<image::Views>>& views);
/// The views, and their model, where a command that looks at pictures names no model, transform or views: zoom.
/// Leaves everything else as it is. Nothing is chosen beside `others`: options that need one view, or compare models.
void choose_views(const ParsedOptions& options, ModelRequest& model, TransformRequest& transform,
                  AutoExif exif, std::initializer_list<Field> others);
/// The same request in the words of a client, who names another model or other views; "": nothing of it.
void choose_anew(ModelRequest& model, TransformRequest& transform, const std::string& named,
                 const std::string& views);

/// How the model runs, and how pictures are read for it.
struct RunRequest {
  std::string device = "auto";
  std::string precision = "auto";
  model::Kernels kernels = model::Kernels::automatic;
  std::string calibration = {};  ///< pictures that int8 is calibrated on; "" are the bundled ones
  std::uint64_t seed = 42;
  bool deterministic = false;
  std::optional<int> threads = {};  ///< without: the processors, shared with `launch`'s processes
  std::optional<int> workers = {};  ///< the same
  std::int64_t batch_size = 0;      ///< 0: chosen by size
  image::DecodeOptions decode = {};
  bool fastest = false;     ///< what `precision` auto is, where a command has that option
  bool fail_fast = false;   ///< `--set on-error=fail`
  std::string memory = {};  ///< a spec of memories over the frames of a video; "" is none
  std::vector<std::string> memory_options = {};
  model::training::LaunchEnvironment launch = {};
};
RunRequest run_request(const ParsedOptions& options, AutoExif exif);
/// `--set kernels`.
model::Kernels parse_kernels(std::string_view word);

/// How weights are written.
struct WeightsRequest {
  std::optional<checkpoint::Dtype> dtype = {};
};
/// "float32", "float16" or "bfloat16". Throws Error(invalid_argument).
checkpoint::Dtype parse_dtype(const std::string& word);
WeightsRequest weights_request(const ParsedOptions& options);

/// `-v`, `-q`, `--set progress` and `--set color`, whose "auto" asks the terminal.
Console console_request(const ParsedOptions& options);
/// Positionals, and the values of the option that names more of them, where the command has one.
std::vector<std::string> input_words(const ParsedOptions& options);

/// `-o` and `--format`.
struct OutputRequest {
  std::string file;  ///< "" and "-" are standard output
  Format format = Format::text;
};
OutputRequest output_request(const ParsedOptions& options);

/// The request of every command that runs a model on pictures.
struct PicturesRequest {
  Console console;
  ModelRequest model;
  TransformRequest transform;
  RunRequest run;
  std::vector<std::string> words;  ///< what names the pictures
  bool recursive = false;
  std::string labels;
  LabelType label_type = LabelType::name;
  OutputRequest output;
};
/// `--knn`: the nearest stored pictures vote in the place of the classifier.
struct VoteRequest {
  std::string store = {};
  std::int64_t k = 20;
  /// The share of the vote beside the classifier's own probabilities; without it the vote alone answers.
  std::optional<double> share = {};
};
/// The vote over the pictures of `request`. Throws Error(invalid_argument) for options that do not go together.
VoteRequest vote_request(const ParsedOptions& options, const PicturesRequest& request);

/// The request of a command that sees each picture in one view, by default, too.
PicturesRequest one_view_request(const ParsedOptions& options, AutoExif exif);
/// `one_view`: options beside which pictures are seen in one view by default.
PicturesRequest pictures_request(const ParsedOptions& options, AutoExif exif,
                                 std::initializer_list<Field> one_view = {});
/// Frames that share what they saw, by `--memory` or by a mean over them, come one by one, in one view. Throws
/// Error(invalid_argument) where others are asked for.
void check_frames(const PicturesRequest& request, double video_average = 0);

/// "224x224", height first, as in --img-size.
std::string size_text(const image::Size& size);
/// "384" or "384x640" (height x width), as --img-size takes it. Throws Error(invalid_argument).
image::Size parse_size(const std::string& text, const std::string& option = "`img_size`");
/// A layer's number; throws UsageError about `option`, which takes `expected`, with the hint.
std::int64_t parse_layer(const std::string& text, const std::string& expected,
                         const std::string& option, const std::string& hint);

}  // namespace hydrascope::app
