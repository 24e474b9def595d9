// The C functions of libhydrascope.so (include/hydrascope/hydrascope.h), around a Service; some need no model.
#define HYDRASCOPE_WITHOUT_CLASSES
#include "app/build_info.h"
#include "app/library/include/hydrascope/hydrascope.h"
#include "app/options/mechanism_listing.h"
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/pictures/inputs.h"
#include "app/pipeline/picture_job.h"
#include "app/results/json.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "app/session/service.h"
#include "app/visualize/visualize_options.h"
#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/config/config.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <future>
#include <initializer_list>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// The last error of a thread.
struct LastError {
  std::string code;
  std::string field;
  std::string subject;
  std::string text;
  std::string hint;
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

void remember(const Error& error) noexcept {
  try {
    last_error() = {std::string(name(error.code())), error.field(), error.subject(),
                    error_line(error), spelled(error.hint())};
  } catch (...) {  // no memory for the text
    last_error().code.clear();
  }
}

/// `work()`; false, 0 or null where it throws, or where one of the pointers that a function of the library is given is
/// null.
template <class Work>
auto guarded(std::initializer_list<const void*> pointers, const Work& work) noexcept
    -> decltype(work()) {
  try {
    const auto* const found = std::find(pointers.begin(), pointers.end(), nullptr);
    if (found != pointers.end())
      throw Error(ErrorCode::invalid_argument, "expected a pointer, found null",
                  "pointer " + std::to_string(found - pointers.begin() + 1) + " of the call");
    return work();
  } catch (...) {
    remember(as_error(std::current_exception()));
    return {};
  }
}

/// The JSON of `make()`, which lives until this thread's next call of that kind; null as `guarded`.
template <class Make>
const char* json_of(std::initializer_list<const void*> pointers, const Make& make) {
  return guarded(pointers, [&] {
    thread_local std::string text;
    text = json_text(make());
    return text.c_str();
  });
}

/// For `guarded`: a list may be null where it has no items, its words may not.
const void* list(const void* items, std::size_t count) { return count == 0 ? "" : items; }
const void* list(const char* const* words, std::size_t count) {
  const bool has_null = words != nullptr && std::count(words, words + count, nullptr) > 0;
  return has_null ? nullptr : list(static_cast<const void*>(words), count);
}

std::vector<Option> only(std::vector<Option> options, std::initializer_list<Field> fields) {
  std::erase_if(options, [&](const Option& option) {
    return std::ranges::find(fields, option.field) == fields.end();
  });
  return options;
}

/// The options of the command line's tables that open a model. Options about files, records and the
/// terminal is not among it.
CommandSpec opening_spec(bool with_maps) {
  CommandSpec spec;
  spec.name = "classify";
  spec.options = join(
      {model_options(), class_vector_options(),
       only(input_options(), {&image::DecodeOptions::max_pixels, &image::DecodeOptions::max_bytes}),
       preprocessing_options(), views_options(), runtime_options(),
       only(label_options(), {&PicturesRequest::labels}),
       with_maps ? only(map_options(), {&MapWords::methods, &MapWords::layers, &MapWords::heads,
                                        &MapWords::mapless})
                 : std::vector<Option>()});
  if (with_maps) spec.name = "visualize";
  return spec;
}

/// The options of a question: `--topk` is the command's.
CommandSpec asking_spec(bool with_maps) {
  CommandSpec spec;
  spec.name = with_maps ? "visualize" : "classify";
  spec.options = with_maps
                     ? only(map_options(), {&MapWords::methods, &MapWords::layers, &MapWords::heads,
                                            &VisualizeRequest::classes, &VisualizeRequest::topk})
                     : std::vector<Option>{integer("topk", "classes of an answer",
                                                   into(&Question::topk), takes("K"), at_least(1))};
  // Without a word all maps that the model was opened for.
  for (Option& option : spec.options) option.default_value.clear();
  return spec;
}

/// The words of a function. A key of `--set` may stand as an option: "--crop-pct=1" and "--crop-pct", "1" are
/// "--set=crop-pct=1".
ParsedOptions parsed(const CommandSpec& table, std::span<const char* const> words) {
  const CommandSpec spec = with_settings(table);
  std::vector<std::string> given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    const Option* key = find_option(spec, name) ? nullptr : find_key(spec, name);
    if (key == nullptr) {
      given.push_back(word);
      continue;
    }
    std::string value = "on";
    if (equals < word.size()) {
      value = word.substr(equals + 1);
    } else if (key->kind != ValueKind::flag && i + 1 < words.size()) {
      value = words[++i];
    }
    given.push_back("--set=" + name + "=" + value);
  }
  return parse(spec, given);
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

/// Nothing where it is in a file.
std::optional<PictureInMemory> in_memory(const hydrascope_picture& given) {
  PictureInMemory picture;
  if (given.pixels != nullptr) {
    picture.pixels = {given.pixels, given.height, given.width, given.row_stride};
    check_pixels(picture.pixels);
    if (given.row_stride == 0) picture.pixels.row_stride = 3 * given.width;
  } else if (given.bytes != nullptr) {
    picture.encoded = {static_cast<const std::byte*>(given.bytes), given.num_bytes};
  } else if (given.path != nullptr) {
    return std::nullopt;
  } else {
    throw UsageError("expected a file, bytes or pixels", text_of(given.name));
  }
  return picture;
}

/// `question`, asked about that picture.
Question question_of(const hydrascope_picture& given, Question question) {
  question.name = text_of(given.name != nullptr ? given.name : given.path);
  question.picture = in_memory(given);
  if (!question.picture) question.file = given.path;
  return question;
}

/// `maps` of `answer` over `given`, as `visualize` draws them by `options`; without maps the picture as it is.
/// `decode`: as the picture was decoded for the answer.
viz::Canvas draw(const Answer& answer, std::span<const std::size_t> maps,
                 const hydrascope_picture& given, const image::DecodeOptions& decode,
                 const ParsedOptions& options) {
  Input input;
  if (auto memory = in_memory(given)) {
    input.memory = std::make_shared<PictureInMemory>(std::move(*memory));
  } else {
    input = file_input(given.path, given.path);
  }
  image::Picture picture = picture_of(input, decode);
  if (picture.height != answer.record.height || picture.width != answer.record.width)
    throw UsageError("expected the picture that was asked about, " +
                         size_text({answer.record.height, answer.record.width}) + ", found " +
                         size_text({picture.height, picture.width}) + " pixels (HxW)",
                     "picture");
  viz::Canvas canvas{picture.width, picture.height, std::move(picture.rgb)};
  if (maps.empty()) return canvas;
  const FigureOptions figure = figure_options(options);
  std::vector<ShownMap> shown;
  for (const std::size_t map : maps) {
    if (map >= answer.maps.size())
      throw UsageError("expected the place of one of " + std::to_string(answer.maps.size()) +
                           " maps, found " + std::to_string(map),
                       "maps");
    shown.push_back(shown_map(answer.maps[map], figure));
  }
  return draw_figure(std::move(canvas), shown, figure);
}

/// The options that maps are drawn with.
CommandSpec drawing_spec() {
  CommandSpec spec;
  spec.name = "visualize";
  spec.options = join({drawing_options(), only(label_options(), {&PicturesRequest::label_type})});
  return spec;
}

/// The question to all pictures of a call.
Question asked_of_all(const ParsedOptions& options, unsigned wants) {
  Question question;
  options.fill(question);
  question.embeds = (wants & HYDRASCOPE_EMBEDDING) != 0;
  if ((wants & HYDRASCOPE_MAPS) != 0) {
    MapQuestion& maps = question.maps.emplace();
    options.fill(maps.words);
    maps.classes = options[&VisualizeRequest::classes].values;
    take(options[&VisualizeRequest::topk], maps.topk);
    question.topk = std::max(question.topk, maps.topk.value_or(1));
  }
  return question;
}

OrderedJson facts_of(const Service& service) {
  const model::VitConfig& config = service.config();
  const InputRecord& run = service.run_facts();
  OrderedJson facts;
  facts["version"] = kVersion;
  facts["name"] = service.model_name();
  facts["architecture"] = config.arch;
  facts["num_classes"] = config.num_classes;
  facts["embed_dim"] = config.embed_dim;
  facts["depth"] = config.depth;
  facts["num_heads"] = config.num_heads;
  facts["patch_size"] = config.patch_size;
  add_attention(facts, run);
  facts["device"] = run.device;
  facts["precision"] = run.precision;
  facts["transform"] = service.transform();
  OrderedJson& maps = facts["maps"] = OrderedJson::array();
  for (const MapChoice& map : service.maps())
    maps.push_back({{"method", model::explain::entry_of(map.method).name},
                    {"layer", map.layer},
                    {"head", to_text(map.head)}});
  facts["notes"] = service.notes();
  return facts;
}

/// The first pixel of an edge's cells, and the length of all, in pixels of the picture.
std::pair<double, double> extent(const viz::Axis& axis) {
  const double pixels = static_cast<double>(axis.picture) / static_cast<double>(axis.resized);
  return {static_cast<double>(axis.window_start) * pixels,
          static_cast<double>(axis.output) * pixels};
}

// Questions that need no model.

OrderedJson as_json(const Report& report) {
  std::ostringstream text;
  report.write(Format::json, text);
  return OrderedJson::parse(text.str());
}

OrderedJson registry() {
  OrderedJson all = {{"mechanisms", OrderedJson::array()},
                     {"position_rules", OrderedJson::array()}};
  for (const model::MechanismEntry* entry : model::mechanisms())
    all["mechanisms"].push_back(as_json(mechanism_report(*entry)));
  for (const model::PositionEntry* entry : model::position_rules())
    all["position_rules"].push_back(as_json(position_rule_report(*entry)));
  all["config"] = OrderedJson::parse(model::to_json(model::VitConfig()));
  for (const std::string& name : bundled_images()) all["samples"].push_back(name);
  return all;
}

CommandSpec attention_spec() {
  CommandSpec spec;
  spec.name = "layers";
  spec.options =
      only(model_options(), {&ModelRequest::attention, &ModelRequest::attention_options});
  return spec;
}

OrderedJson layers(const std::string& before, std::span<const char* const> words) {
  const OrderedJson given = checkpoint::parse_json(before, "list of layers", "layers");
  const std::string config = OrderedJson{{"depth", given.size()}, {"attention", given}}.dump();
  std::vector<model::AttentionSpec> all = model::config_from_json(config, "layers").attention;
  const ParsedOptions options = parsed(attention_spec(), words);
  if (const std::string& spec = options[&ModelRequest::attention].text(); !spec.empty())
    model::apply_attention_spec(spec, all);
  for (const std::string& option : options[&ModelRequest::attention_options].values)
    model::apply_attention_option(option, all);
  OrderedJson result = OrderedJson::array();
  for (const model::AttentionSpec& layer : all)
    result.push_back(
        {{"mechanism", layer.mechanism}, {"options", model::MechanismOptions(layer).all()}});
  return result;
}

OrderedJson configuration(const std::string& file) {
  const checkpoint::Checkpoint weights = checkpoint::Checkpoint::open(file);
  return OrderedJson::parse(model::to_json(weights.deduce_config()));
}

std::vector<std::string> pictures_of(const std::string& word) {
  if (word == "-") return {word};  // a file of that name; standard input is the program's
  InputStream inputs({word}, /*recursive=*/false);
  std::vector<std::string> paths;
  while (const std::optional<Input> input = inputs.next()) {
    if (input->error == ErrorCode::empty) throw Error(*input->error, input->message, input->given);
    paths.push_back(input->given);
  }
  return paths;
}

}  // namespace
}  // namespace hydrascope::app

struct hydrascope_model {
  explicit hydrascope_model(hydrascope::app::ServiceRequest request)
      : decode(request.run.decode),
        service(std::move(request)),
        facts(hydrascope::app::json_text(hydrascope::app::facts_of(service))) {}
  hydrascope::image::DecodeOptions decode;
  hydrascope::app::Service service;
  std::string facts;
};

struct hydrascope_answer {
  hydrascope_answer(hydrascope::app::Answer answer, const hydrascope::image::DecodeOptions& decoded)
      : given(std::move(answer)), decode(decoded) {
    namespace app = hydrascope::app;
    record = app::json_text(app::to_json(given.record));
    if (given.record.error) error_code = app::record_error_code(*given.record.error);
    for (const app::Prediction& one : given.record.top) {
      const app::Box box = one.box.value_or(app::Box());
      top.push_back({one.index, one.id.c_str(), one.label.c_str(), one.prob, one.logit,
                     one.box.has_value() ? 1 : 0, box.left, box.top, box.width, box.height});
    }
    for (const app::InputMap& map : given.maps) {
      const auto [top_edge, height] = app::extent(map.placement.vertical);
      const auto [left_edge, width] = app::extent(map.placement.horizontal);
      maps.push_back(
          {map.map.values.data(), map.map.rows, map.map.columns, left_edge, top_edge, width, height,
           hydrascope::model::explain::entry_of(map.choice.method).name.data(), map.choice.layer,
           texts.emplace_back(app::to_text(map.choice.head)).c_str(), map.of_class.index,
           map.of_class.label.c_str(), map.is_signed ? 1 : 0,
           texts.emplace_back(app::json_text(app::to_json(app::record_of(given.record, map))))
               .c_str()});
    }
  }

  hydrascope::app::Answer given;
  hydrascope::image::DecodeOptions decode;  ///< of its picture
  std::string record;
  std::string error_code;
  std::vector<hydrascope_prediction> top;
  std::vector<hydrascope_map> maps;
  std::deque<std::string> texts;  ///< which `maps` point to
};

namespace app = hydrascope::app;

const char* hydrascope_version() { return app::kVersion.data(); }
const char* hydrascope_error_code() { return app::last_error().code.c_str(); }
const char* hydrascope_error_field() { return app::last_error().field.c_str(); }
const char* hydrascope_error_subject() { return app::last_error().subject.c_str(); }
void hydrascope_name_options(int as) {
  using app::Spelling;
  app::spell_options_as(as == HYDRASCOPE_NAMES ? Spelling::names : Spelling::flags);
}
const char* hydrascope_error_hint() { return app::last_error().hint.c_str(); }
const char* hydrascope_error_text() { return app::last_error().text.c_str(); }

hydrascope_model* hydrascope_open(const char* const* words, size_t num_words, unsigned wants) {
  return app::guarded({app::list(words, num_words)}, [&] {
    const bool with_maps = (wants & HYDRASCOPE_MAPS) != 0;
    app::ServiceRequest request = app::service_request(
        app::parsed(app::opening_spec(with_maps), {words, num_words}), with_maps);
    request.embeds = (wants & HYDRASCOPE_EMBEDDING) != 0;
    request.console = app::Console{.quiet = true, .progress = false};
    return new hydrascope_model(std::move(request));
  });
}

void hydrascope_close(hydrascope_model* model) { delete model; }
const char* hydrascope_facts(const hydrascope_model* model) {
  return app::guarded({model}, [&] { return model->facts.c_str(); });
}

const char* hydrascope_notes(const hydrascope_model* model) {
  return app::json_of({model}, [&] { return app::OrderedJson(model->service.notes()); });
}

int64_t hydrascope_layers_done(const hydrascope_model* model, int64_t* all) {
  const auto done = app::guarded({model, all}, [&] {
    const app::LayersDone layers = model->service.layers_done();
    *all = layers.all;
    return std::optional<int64_t>(layers.done);
  });
  return done.value_or(-1);
}

const char* hydrascope_label(const hydrascope_model* model, int64_t index) {
  return app::guarded({model}, [&] {
    const bool is_there = index >= 0 && index < model->service.config().num_classes;
    return is_there ? model->service.labels().at(index).short_name.c_str() : nullptr;
  });
}

int hydrascope_ask(hydrascope_model* model, const hydrascope_picture* pictures, size_t num_pictures,
                   const char* const* words, size_t num_words, unsigned wants,
                   hydrascope_answer** answers) {
  if (answers != nullptr) std::fill_n(answers, num_pictures, nullptr);
  // Bytes and pixels are read where they lie: nothing returns before all has been looked at.
  std::vector<std::future<app::Answer>> futures;
  bool is_answered = app::guarded(
      {model, app::list(pictures, num_pictures), app::list(words, num_words),
       app::list(answers, num_pictures)},
      [&] {
        const app::Question question = app::asked_of_all(
            app::parsed(app::asking_spec((wants & HYDRASCOPE_MAPS) != 0), {words, num_words}),
            wants);
        for (const hydrascope_picture& picture : std::span(pictures, num_pictures))
          futures.push_back(model->service.ask(app::question_of(picture, question)));
        return true;
      });
  for (std::size_t i = 0; i < futures.size(); ++i) {
    const bool is_this = app::guarded({}, [&] {
      answers[i] = new hydrascope_answer(futures[i].get(), model->decode);
      return true;
    });
    is_answered = is_answered && is_this;
  }
  if (is_answered) return 0;
  for (std::size_t i = 0; i < futures.size(); ++i) delete std::exchange(answers[i], nullptr);
  return 1;
}

void hydrascope_free(hydrascope_answer* answer) { delete answer; }

const uint8_t* hydrascope_draw(const hydrascope_answer* answer, const size_t* maps, size_t num_maps,
                               const hydrascope_picture* picture, const char* const* words,
                               size_t num_words, int64_t* height, int64_t* width) {
  const std::initializer_list<const void*> pointers = {
      answer, app::list(maps, num_maps), picture, app::list(words, num_words), height, width};
  return app::guarded(pointers, [&] {
    thread_local hydrascope::viz::Canvas drawn;
    drawn = app::draw(answer->given, std::span(maps, num_maps), *picture, answer->decode,
                      app::parsed(app::drawing_spec(), {words, num_words}));
    *height = drawn.height;
    *width = drawn.width;
    return std::as_const(drawn).rgb.data();
  });
}

const char* hydrascope_answer_error_code(const hydrascope_answer* answer) {
  if (answer != nullptr && !answer->given.record.error) return nullptr;
  const char* code = app::guarded({answer}, [&] { return answer->error_code.c_str(); });
  return code != nullptr ? code : "invalid_argument";
}
const char* hydrascope_answer_error_text(const hydrascope_answer* answer) {
  if (answer != nullptr && !answer->given.record.error) return nullptr;
  const char* text = app::guarded({answer}, [&] { return answer->given.record.message.c_str(); });
  return text != nullptr ? text : app::last_error().text.c_str();
}
const char* hydrascope_answer_record(const hydrascope_answer* answer) {
  return app::guarded({answer}, [&] { return answer->record.c_str(); });
}

namespace {

/// `items()` of an answer.
template <class Items>
auto listed(const hydrascope_answer* answer, size_t* count, const Items& items) {
  if (count != nullptr) *count = 0;
  return app::guarded({answer, count}, [&] {
    *count = items().size();
    return items().data();
  });
}

}  // namespace

const hydrascope_prediction* hydrascope_answer_top(const hydrascope_answer* answer, size_t* count) {
  return listed(
      answer, count, [&]() -> const auto& { return answer->top; });
}
const float* hydrascope_answer_logits(const hydrascope_answer* answer, size_t* count) {
  return listed(
      answer, count, [&]() -> const auto& { return answer->given.logits; });
}
const float* hydrascope_answer_embedding(const hydrascope_answer* answer, size_t* count) {
  return listed(
      answer, count, [&]() -> const auto& { return answer->given.embedding; });
}
const hydrascope_map* hydrascope_answer_maps(const hydrascope_answer* answer, size_t* count) {
  return listed(
      answer, count, [&]() -> const auto& { return answer->maps; });
}

const char* hydrascope_registry() { return app::json_of({}, app::registry); }

const char* hydrascope_layers(const char* before, const char* const* words, size_t num_words) {
  return app::json_of({before, app::list(words, num_words)}, [&] {
    return app::layers(before, {words, num_words});
  });
}

const char* hydrascope_config(const char* file) {
  return app::json_of({file}, [&] { return app::configuration(file); });
}

const char* const* hydrascope_pictures(const char* word, size_t* count) {
  thread_local std::vector<std::string> paths;
  thread_local std::vector<const char*> texts;
  if (count != nullptr) *count = 0;
  return app::guarded({word, count}, [&] {
    paths = app::pictures_of(word);
    texts.clear();
    for (const std::string& path : paths) texts.push_back(path.c_str());
    *count = texts.size();
    return texts.data();
  });
}
