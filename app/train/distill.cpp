
#include "app/convert/report.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/model/running_model.h"
#include "app/options/option_table.h"
#include "app/options/written_files.h"
#include "app/pictures/labelled_set.h"
#include "app/run/assets.h"
#include "app/run/exit_code.h"
#include "app/run/local_ranks.h"
#include "app/run/own_program.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/tasks/format_only.h"
#include "app/train/conversion_options.h"
#include "app/train/session.h"
#include "app/train/training_options.h"
#include "kernels/file_place.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/sha256.h"
#include "model/device.h"
#include "model/training/distillation/conversion.h"
#include "model/training/distillation/converted_layers.h"
#include "model/training/parallel/averaging.h"
#include "model/training/training_state.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
namespace training = model::training;

/// Loading the best weights, writing the file and the report.
constexpr double kSecondsOfSaving = 1;

/// Options of mechanisms that a conversion chooses where the user says nothing: those that
/// converted models are best with.
struct ConversionDefault {
  const char* mechanism;
  const char* key;
  const char* value;
};
constexpr ConversionDefault kConversionDefaults[] = {{"hydra", "feature_scale", "on"},
                                                     {"hedgehog", "variant", "softmax2"}};

void apply_conversion_defaults(const ModelRequest& request, ModelSource& source) {
  std::vector<model::AttentionSpec>& layers = source.config.attention;
  const std::vector<model::AttentionSpec> asked =
      model::with_all_options(layers, source.config.training_grid());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (asked[layer] == source.trained.attention[layer]) continue;
    for (const auto& [mechanism, key, value] : kConversionDefaults) {
      const bool is_new = source.trained.attention[layer].mechanism != mechanism;
      if (layers[layer].mechanism == mechanism && is_new) layers[layer].options[key] = value;
    }
  }
  // The user's word wins.
  for (const std::string& option : request.attention_options)
    model::apply_attention_option(option, layers);
}

ModelSource open_source(const ModelRequest& request, const std::string& architecture) {
  std::string word = request.word;
  std::error_code ignored;
  fs::path file = word;
  if (word.empty()) word = std::string(kDefaultModel);
  if (file.empty() || !fs::exists(file, ignored)) {
    auto found = named_model(word);
    if (found)
      word = found->stem().string();
    else
      found = hub_folder(word);
    if (!found) throw NotFound("no such file, and no bundled model", word);
    file = *found;
  }
  if (request.num_classes || request.reset_head) {
    throw UsageError("a new classifier has nothing to teach", "convert",
                     "give the model its classes with `hydrascope train` first");
  }
  ModelSource source = open_weights(request, word, file, architecture);
  const std::string why = source.config.share_blocks > 0 ? "the model's layers share blocks"
                                                         : model::why_modules_alone(source.config);
  if (!why.empty())
    throw Error(ErrorCode::invalid_argument, "layers are converted one by one, and " + why,
                source.name);
  // That the attention changes is what is wanted.
  source.notes = spelled(source.weights.notes());
  apply_conversion_defaults(request, source);
  return source;
}

/// The pictures of `--eval`, read before the work begins: labelled for a model that has classes.
LabelledSet evaluation_pictures(const ConvertRequest& request, bool has_classes,
                                const image::Labels& labels, std::vector<Input>& failed) {
  const std::string& folder = request.evaluated_folder;
  if (folder.empty()) {
    if (request.required_top1)
      throw UsageError("nothing to measure top-1 on", "`require_top1`",
                       "`eval` FOLDER names labelled pictures");
    return {};
  }
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) throw NotFound("no such folder", "`eval` " + folder);
  if (!has_classes) {
    FoundPictures found;
    std::set<fs::path> known;
    add_pictures(folder, 0, known, found);
    LabelledSet set;
    for (training::TrainingPicture& picture : found.pictures)
      set.pictures.push_back({std::move(picture.file)});
    set.has_labels = false;
    set.passed = found.passed;
    failed = std::move(found.failed);
    return set;
  }
  const std::string& csv = request.labels_csv;
  LabelledSet set =
      csv.empty() ? read_folder_classes(folder, labels) : read_labels_csv(csv, folder, labels);
  if (!set.has_labels) throw UsageError("top-1 needs one label per picture", "`labels_csv` " + csv);
  if (set.readable() == 0)
    throw Error(ErrorCode::empty, "none of the labelled pictures can be read", "`eval` " + folder);
  return set;
}

/// One conversion from its options to its report.
class Distillation : TrainingSession {
 public:
  Distillation(const ConvertRequest& request, ModelSource source)
      : TrainingSession(request),
        request_(request),
        output_(request.output.file),
        source_(std::move(source)),
        target_(target_of(request_, has_classes())) {}

  int run();

 private:
  [[nodiscard]] bool has_classes() const { return source_.config.num_classes > 0; }
  void check_files() const;
  [[nodiscard]] fs::path states_folder() const {
    return beside(end_of_links(output_), ".training");
  }
  /// Gives the new model its exits; the old model's exits are not its.
  void choose_exits();
  void build_models();
  /// The layers that `--start` gives, from `train_from` on.
  std::vector<std::int64_t> take_over_starts(std::int64_t train_from);
  void say_what_happens(const training::ConversionOptions& chosen, std::int64_t steps) const;
  training::ConversionEvents events(const training::Conversion& conversion);
  /// Top-1 and agreement of features of the written weights, with their rounding, into `report`.
  void evaluate(ConversionReport& report);
  /// Agreement of features on `--eval`.
  void compare_features(ConversionReport& report);
  /// This process's part of some pictures.
  [[nodiscard]] std::vector<training::TrainingPicture> mine_of(
      const std::vector<training::TrainingPicture>& pictures) const;
  int finish(const training::ConversionHistory& history);

  ConvertRequest request_;
  fs::path output_;
  ModelSource source_;
  training::Target target_;
  ResolvedTransform shown_;      ///< what is learned from
  ResolvedTransform transform_;  ///< of the result
  std::vector<LabelledPicture> evaluated_;
  ConversionPictures pictures_;
  std::unique_ptr<training::Teacher> teacher_;
  model::VisionTransformer student_{nullptr};
  checkpoint::Metadata about_;
  std::string recipe_;           ///< a JSON object
  std::int64_t renumbered_ = 0;  ///< steps done beyond those that the steps' numbers count
  std::int64_t first_step_ = 0;  ///< of the stage, in this session
  std::string agreement_;        ///< of the last look, for the progress line
};

void Distillation::check_files() const {
  if (output_.empty()) {
    throw UsageError("expected the file to write", "convert",
                     "-o FILE.safetensors; another format alone: convert IN OUT");
  }
  if (!request_.names_attention && request_.sizes.empty() && !request_.learns_exits()) {
    throw UsageError("expected the attention to convert to", "convert",
                     "`attn` hydra:last2; or what to learn: `sizes` 384,512 or `exits` auto");
  }
  std::vector<std::string> read = request_.starts;
  read.push_back(source_.weights.file().string());
  for (const std::string& file : read) refuse_input(output_, "-o " + output_.string(), file);
  // A file is replaced by the run that wrote it, or by one that is told to.
  const std::string& resume = resume_.word;
  const bool goes_on =
      resume == "auto" ? training::newest_state(states_folder()).has_value() : !resume.empty();
  prepare_output(output_, resume_.force || goes_on);
  if (!resume_.force)
    refuse_to_replace(output_, FileKind::weights, output_.string(), "`force` replaces it");
}

void Distillation::build_models() {
  model::VisionTransformer teacher(source_.trained);
  source_.weights.load_into(*teacher, source_.head);
  teacher->to(device_);
  teacher_ = std::make_unique<training::Teacher>(teacher, target_);
  model::seed_generators(run_.seed);
  student_ = model::VisionTransformer(source_.config);
  const checkpoint::Loading loading = source_.weights.start_loading(*student_, source_.head);
  model::fill(*student_, loading.weights());
  if (request_.learns_exits() && source_.config.exits != source_.trained.branch_exits())
    model::start_from_trunk(student_->class_branch(), loading.weights());
}

void Distillation::choose_exits() {
  model::VitConfig& config = source_.config;
  if (!request_.learns_exits()) {
    if (!config.exits.empty())
      source_.notes.emplace_back("the exits belong to the old model and are left out");
    config.exits.clear();
  } else if (request_.chooses_exits) {
    config.exits.clear();
    // Each exit is one more chance to differ, and neighbours leave behind nearly the same work.
    for (std::int64_t layer = config.depth / 2; layer <= config.depth - 3; layer += 2)
      config.exits.push_back(layer);
    if (config.exits.empty())
      throw UsageError("a model of " + std::to_string(config.depth) + " layers is too short",
                       "`exits` auto");
  } else {
    config.exits = request_.exits;
  }
  config.coarse_exits = false;
  config.exit_threshold = 1;  // of the exits before
  model::validate(config);
}

std::vector<std::int64_t> Distillation::take_over_starts(std::int64_t train_from) {
  std::vector<std::int64_t> all;
  const std::vector<std::string>& starts = request_.starts;
  const bool has_parent = !starts.empty() && !source_.random_weights;
  const std::string parent = has_parent ? checkpoint::sha256_of_file(source_.weights.file()) : "";
  for (const std::string& start : starts) {
    const std::vector<std::int64_t> taken = training::take_over_layers(
        checkpoint::Checkpoint::open(start), train_from, parent, *student_);
    std::vector<std::string> layers;
    for (const std::int64_t layer : taken) layers.push_back(std::to_string(layer));
    console_.detail("layers " + join_words(layers, ", ", " and ") + " begin as in " + start);
    all.insert(all.end(), taken.begin(), taken.end());
  }
  return all;
}

void Distillation::say_what_happens(const training::ConversionOptions& chosen,
                                    std::int64_t steps) const {
  for (const std::string& note : source_.notes) console_.note("note: " + note);
  shown_.say_assumed(console_);
  const image::Size own_size{source_.config.img_height, source_.config.img_width};
  if (const image::Size size = shown_.config.img_size; size != own_size) {
    console_.note("note: the model looks at pictures of " + size_text(size) + ", it was made for " +
                  size_text(own_size) + "; what it says there is learned");
  }
  console_.note(source_.name + ": " + model::to_text(source_.trained.attention) + " -> " +
                model::to_text(source_.config.attention) + ", " +
                (request_.max_minutes > 0 ? "at most " : "") + std::to_string(steps) +
                " steps in all, on " + device_.str() + ", " +
                std::string(name(chosen.trainer.autocast)));
  for (const std::string& source : pictures_.sources)
    console_.detail("pictures (learned from + held out): " + source);
}

training::ConversionEvents Distillation::events(const training::Conversion& conversion) {
  training::ConversionEvents events;
  events.on_stage = [this](const training::StageStart& start) {
    progress_.reset();
    const std::string label = std::string(name(start.stage)) + " " + std::to_string(start.number) +
                              "/" + std::to_string(start.stages);
    first_step_ = start.step;
    progress_ =
        std::make_unique<Progress>(label, start.steps - start.step, console_.progress, "steps");
  };
  events.on_steps = [this](training::Stage stage, std::int64_t steps, std::int64_t whole) {
    progress_->set_total(steps - first_step_);
    if (!is_first()) return;
    progress_->hide();
    console_.note(std::string(name(stage)) + ": " + std::to_string(steps) + " of " +
                  std::to_string(whole) + " steps in its part of `max_minutes` " +
                  shortest_number(request_.max_minutes));
  };
  events.keep_going = [this] {
    progress_->advance();
    return !stop_requested();
  };
  events.on_record = [this](training::Stage stage, std::int64_t step,
                            const training::StepRecord& record) {
    progress_->set_detail(agreement_ + "  " + progress_text(record));
    const std::string prefix = std::string(name(stage)) + "/";
    if (log_) log_->add({step + renumbered_, record.epoch, scalars_of(record, prefix)});
  };
  events.on_evaluation = [this, &conversion](const training::Evaluation& evaluation,
                                             std::int64_t step, bool is_best) {
    const training::Agreement& agreement = evaluation.agreement;
    agreement_ = measures_of(target_).front().text(agreement);
    if (!is_first()) return;
    if (progress_) progress_->hide();
    console_.note(evaluation.stage +
                  (evaluation.step > 0 ? " " + std::to_string(evaluation.step) : "") + " (" +
                  std::to_string(step) + "/" + std::to_string(conversion.planned_steps()) +
                  "): " + to_text(agreement) + (is_best ? "  (best)" : ""));
    training::Scalars scalars;
    for (const AgreementMeasure& measure : measures_of(target_))
      scalars.emplace_back(measure.key, agreement.*measure.value);
    scalars.emplace_back("minutes", evaluation.seconds / 60);
    log_->add({step + renumbered_, 0, std::move(scalars)});
  };
  return events;
}

std::vector<training::TrainingPicture> Distillation::mine_of(
    const std::vector<training::TrainingPicture>& pictures) const {
  std::vector<training::TrainingPicture> mine;
  for (std::size_t i = run_.launch.rank; i < pictures.size(); i += run_.launch.world_size)
    mine.push_back(pictures[i]);
  return mine;
}

void Distillation::compare_features(ConversionReport& report) {
  std::vector<training::TrainingPicture> pictures;
  for (const LabelledPicture& picture : evaluated_)
    if (!picture.error) pictures.push_back({picture.file, -1, 0});
  const training::HeldOutImages images(mine_of(pictures), training_transform(transform_),
                                       loader_workers(run_), unreadable_.report(), run_.decode);
  report.eval_images = training::sum_of_all(*group_, images.count());
  if (report.eval_images == 0)
    throw Error(ErrorCode::empty, "none of the pictures can be read",
                "`eval` " + request_.evaluated_folder);
  training::AgreementMeter meter(*teacher_, images, *group_, device_, training::Autocast::off);
  report.eval_features = meter.measure(*student_);
}

void Distillation::evaluate(ConversionReport& report) {
  training::load_weights(output_, *student_);
  try {
    if (target_ == training::Target::features) compare_features(report);
    if (!has_classes()) return;
    const ValidationScore score =
        validate(*student_, training::Autocast::off, evaluated_, transform_.config);
    if (score.interrupted) return;
    report.top1 = score.top1;
    report.eval_images = score.images;
  } catch (const Error& error) {
    // The model is made all the same.
    if (error.code() != ErrorCode::empty) throw;
    if (is_first()) print_error(error);
  }
}

int Distillation::finish(const training::ConversionHistory& history) {
  const checkpoint::Dtype dtype = request_.dtype;
  if (is_first()) {
    const training::Agreement& best = history.best_evaluation().agreement;
    if (target_ == training::Target::logits) about_["agreement"] = fixed(best.top1, 2);
    if (target_ == training::Target::features)
      for (const AgreementMeasure& measure : measures_of(target_))
        about_[measure.key] = fixed(best.*measure.value, measure.digits);
    about_["complete"] = history.is_complete ? "yes" : "no";
    checkpoint::save_checkpoint(output_, *student_, dtype, about_);
  }
  group_->barrier();  // it is written

  ConversionReport report;
  report.from = source_.name;
  report.output = output_.string();
  report.before = model::to_text(source_.trained.attention);
  report.after = model::to_text(source_.config.attention);
  report.attention_options = computed_options(source_.config);
  report.sources = pictures_.sources;
  report.recipe = recipe_;
  report.history = history;
  report.precision = dtype == checkpoint::Dtype::F32   ? "float32"
                     : dtype == checkpoint::Dtype::F16 ? "float16"
                                                       : "bfloat16";
  report.computed = device_.str() + ", " + std::string(name(autocast_of(request_, device_))) +
                    ", " + std::to_string(group_->world_size()) +
                    (group_->world_size() == 1 ? " process" : " processes");
  const bool stops = training::number_of_first(*group_, stop_requested() ? 1 : 0) != 0;
  if (!evaluated_.empty() && !stops) evaluate(report);
  report.unreadable = unreadable_.count(*group_);
  const bool is_below =
      request_.required_top1 && report.top1 && *report.top1 < *request_.required_top1;
  const int code = exit_code_after_stop(!history.failure.empty() ? kExitFailed
                                        : is_below               ? kExitCheckFailed
                                        : report.unreadable > 0  ? kExitSomeInputsFailed
                                                                 : kExitOk);
  if (!is_first()) return code;
  report_of(report).write(request_.output.format, std::cout);
  console_.note("wrote " + output_.string());
  if (!history.failure.empty()) {
    print_error(Error(ErrorCode::failed, history.failure, "convert",
                      "the file holds the best state before that; a run with a smaller `lr`, begun "
                      "anew with `force`, may go further"));
  } else if (!history.is_complete) {
    if (history.stages.empty())
      console_.note("note: `max_minutes` " + shortest_number(request_.max_minutes) + ": " +
                    about(seconds_of_process()) +
                    " went into start and checks, and no step of learning fits into the rest");
    console_.note("note: the conversion is not complete; `resume` auto goes on with it");
  }
  if (is_below)
    std::cerr << "check failed: top-1 is below --require-top1 "
              << shortest_number(*request_.required_top1) << '\n';
  return code;
}

int Distillation::run() {
  check_files();
  choose_exits();
  shown_ = resolve_transform(request_.transform, source_);
  // A model that learns sizes keeps its own, whatever size its teacher looks at.
  TransformRequest of_result = request_.transform;
  if (!request_.sizes.empty()) of_result.img_size.reset();
  transform_ = resolve_transform(of_result, source_);
  const ResolvedLabels labels = resolve_labels(request_.labels, source_);
  std::vector<Input> failed;
  LabelledSet evaluated = evaluation_pictures(request_, has_classes(), labels.labels, failed);
  report_found(failed, evaluated.notes());
  evaluated_ = std::move(evaluated.pictures);
  const image::TransformConfig transform = training_transform(shown_);
  pictures_ = conversion_pictures(request_.words, request_.held_out, run_.seed);
  report_found(pictures_.failed, pictures_.passed.notes());
  build_models();
  const training::ConvertedLayers layers =
      training::converted_layers(teacher_->config(), *student_);
  request_.choose_numbers(!layers.maps.empty(), run_.launch.world_size);
  run_.batch_size = request_.asked_batch_size.value();
  training::ConversionOptions chosen =
      conversion_options(request_, run_, transform, device_, std::ssize(pictures_.training));
  chosen.loader.on_failure = unreadable_.report();
  // Blocks before the first one that learns are the teacher's.
  chosen.begun = take_over_starts(chosen.train_from >= 0 ? chosen.train_from : layers.first());
  chosen.seconds_after = kSecondsOfSaving;
  chosen.pictures_after = std::ssize(evaluated_);
  const std::int64_t steps_of_maps = layers.maps.empty() ? 0 : chosen.maps.steps;
  const bool fits_hydra = !layers.hydra.empty();
  if (layers.all.empty() && chosen.sizes.steps == 0 && chosen.exits.steps == 0) {
    throw UsageError(
        "the model already has that attention: " + model::to_text(source_.trained.attention),
        "`attn`");
  }
  if (steps_of_maps + chosen.outputs.steps + chosen.finetune.steps + chosen.sizes.steps +
              chosen.exits.steps ==
          0 &&
      chosen.begun.empty() && !fits_hydra) {
    throw UsageError("no stage has steps: nothing would be learned", "convert",
                     "`epochs`, `steps_maps` or `steps_outputs` above 0");
  }
  student_->to(device_);
  training::share_weights(*student_, *group_);
  recipe_ = conversion_recipe(request_, target_, chosen.trainer.autocast, group_->world_size());
  about_ = describe_descendant(source_, "convert", transform_, labels);
  about_["recipe"] = recipe_;
  chosen.identity = identity_of_run("convert", recipe_, about_, pictures_.training);
  require_same_on_all(recipe_, chosen.identity);
  const training::HeldOutImages held_out(mine_of(pictures_.held_out), transform,
                                         chosen.loader.workers, unreadable_.report(),
                                         chosen.loader.decode);
  chosen.seconds_before = seconds_of_process();
  training::Conversion conversion(*teacher_, *student_, pictures_.training, held_out, *group_,
                                  states_folder(), about_, chosen);
  if (is_first()) say_what_happens(chosen, conversion.planned_steps());

  std::int64_t steps_done = -1;
  if (const auto state = begin_in(states_folder(), conversion.newest_state())) {
    const training::Resumption resumed = conversion.resume(*state);
    renumbered_ = resumed.steps_done - resumed.step;
    steps_done = resumed.steps_done;
    console_.note("resumed at step " + std::to_string(resumed.step));
  } else {
    if (is_first() && !resume_.force) refuse_other_files(states_folder());
    conversion.forget_states();  // of a run that --force ends
  }
  if (is_first()) log_ = std::make_unique<training::MetricLog>(states_folder(), steps_done);
  const training::ConversionHistory& history = conversion.run(events(conversion));
  if (progress_) progress_->finish();
  const int code = finish(history);
  group_->barrier();  // torchrun ends all when the first one ends with an exit code
  return code;
}

}  // namespace

int distill(const ConvertRequest& request) {
  ModelSource source = open_source(request.model, request.architecture);
  LocalRanks others(local_processes(request.processes, default_processes(request, source.config)));
  const int code = Distillation(request, std::move(source)).run();
  return others.wait(code);
}

}  // namespace hydrascope::app
