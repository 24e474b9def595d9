#include "app/session/service.h"

#include "app/model/model_source.h"
#include "app/model/running_model.h"
#include "app/pipeline/picture_job.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "app/session/kept_generator.h"
#include "app/session/map_explainer.h"
#include "app/session/session.h"
#include "kernels/error.h"
#include "model/inference/one_torch_thread.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

namespace hydrascope::app {
namespace {

/// Seconds that a picture waits for company: little beside what a batch takes.
constexpr double kPatience = 0.025;

using Done = std::function<void(Answer)>;

/// The question about a picture, its words understood.
struct Unanswered {
  Question question;
  std::vector<MapChoice> maps = {};
  std::optional<ClassChoice> classes = {};
  Done done;
};

/// Throws where a question's answer is not wanted any more.
void check_wanted(const Question& question) {
  if (question.given_up && question.given_up())
    throw Error(ErrorCode::failed, "nobody waits for the answer any more");
  if (question.deadline && std::chrono::steady_clock::now() > *question.deadline)
    throw Error(ErrorCode::failed, "there was no answer in time");
}

}  // namespace

ServiceRequest service_request(const ParsedOptions& options, bool wants_maps) {
  ServiceRequest request;
  if (options.find(&Console::quiet) != nullptr) request.console = console_request(options);
  request.model = model_request(options);
  request.transform = transform_request(options);
  request.run = run_request(options, AutoExif::upright);
  options.fill<PicturesRequest>(request);
  if (wants_maps) options.fill(request.maps.emplace());
  choose_views(options, request.model, request.transform, AutoExif::upright, {});
  return request;
}

struct Service::State {
  explicit State(ServiceRequest given) : request(std::move(given)) {}

  void open() {
    const KeptGenerator kept;
    request.console.heard = [this](const std::string& text) { keep_note(text); };
    request.model.may_lack_classes = request.embeds;
    session = Session::open(request);
    if (session->config().num_classes == 0 && request.maps) {
      request.maps.reset();
      session->note("the model has no classifier: it embeds pictures, and nothing else");
    }
    session->labels();
    session->announce();
    TracedFor explained{.embeddings = request.embeds};
    if (request.maps) {
      MapSelection selection = choose_maps(session->config(), *request.maps);
      explained.maps = std::move(selection.maps);
      explained.mapless = request.maps->mapless;
      for (const std::string& note : selection.notes) session->note(note);
      usual_maps = explained.maps;
      if (request.all_methods) add_other_methods(explained.maps);
    }
    // The number of this thread alone: the session finds what it would set for all.
    model::inference::set_openmp_threads(model_threads(request.run));
    session->load(explained);
    PipelineOptions& pipeline = session->pipeline();
    pipeline.in_order = false;
    pipeline.ends_on_signal = false;
    pipeline.serial_workers = true;
    pipeline.patience = kPatience;
    pipeline.check_wanted = [this](const Input& input) {
      const std::lock_guard lock(mutex);
      if (const auto found = asked.find(input.number); found != asked.end())
        check_wanted(found->second.question);
    };
    pipeline.batch_done = request.batch_done;
    pipeline.layer_done = [this](std::int64_t done, std::int64_t all, double /*pictures*/) {
      set_layers(done, all);
    };
    notes_on_model = notes;
  }

  /// Notes are kept once each, without their first word.
  void keep_note(std::string_view text) {
    constexpr std::string_view kPrefix = "note: ";
    if (!text.starts_with(kPrefix)) return;
    text.remove_prefix(kPrefix.size());
    const std::lock_guard lock(mutex);
    if (std::ranges::find(notes, text) == notes.end()) notes.emplace_back(text);
  }

  /// Runs the pipeline until the service is closed; false when all is answered.
  bool serve() noexcept {
    try {
      session->run([this] { return next(); },
                   [this](PipelineResult& result) {
                     std::unique_lock lock(mutex);
                     const Unanswered one = std::move(asked.extract(result.input.number).mapped());
                     lock.unlock();
                     deliver(one.done, answer(one, result));
                     return true;
                   });
      return false;
    } catch (...) {
      return fail_taken(as_error(std::current_exception()));
    }
  }

  std::optional<Input> next() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return closing || !waiting.empty(); });
    if (waiting.empty()) return std::nullopt;
    const std::int64_t number = waiting.front();
    waiting.pop_front();
    const Question& question = asked.at(number).question;
    Input input;
    if (question.picture) {
      input.given = question.name;
      input.memory = std::make_shared<PictureInMemory>(*question.picture);
    } else {
      input = file_input(question.name, question.file);
    }
    input.number = number;
    if (input.is_video && !input.error) {
      input.error = ErrorCode::unsupported_format;
      input.message = "is a video; pictures are asked about one by one";
    }
    return input;
  }

  Answer answer(const Unanswered& one, const PipelineResult& result) {
    std::vector<std::int64_t> classes;
    if (one.classes && !result.error)
      classes = one.classes->resolve(result.scores.first(one.classes->num_best()),
                                     /*keep_repeated=*/false);
    Answer answer = session->answer(result, one.question, one.maps, classes,
                                    [&](std::int64_t done, std::int64_t all) {
                                      check_wanted(one.question);
                                      // Its steps are some more than the layers, which people count.
                                      const std::int64_t depth = session->config().depth;
                                      if (all > 0) set_layers(done * depth / all, depth);
                                    });
    if (result.error) return answer;
    std::vector<std::string>& said = answer.record.notes = notes_on_model;
    if (const auto& trained = session->pipeline().trained_size)
      said.push_back(spelled(trained->remark(result.model_size)));
    std::erase(said, "");
    return answer;
  }

  /// After a run that ended with an error: answers the questions that it was at work on, or else the next one;
  /// false where there is none and the service is closed.
  bool fail_taken(const Error& error) {
    std::vector<Unanswered> taken;
    {
      std::unique_lock lock(mutex);
      const std::set<std::int64_t> untouched(waiting.begin(), waiting.end());
      for (auto& [number, one] : asked)
        if (!untouched.contains(number)) taken.push_back(std::move(one));
      std::erase_if(asked, [&](const auto& one) { return !untouched.contains(one.first); });
      if (taken.empty()) {
        changed.wait(lock, [&] { return closing || !waiting.empty(); });
        if (waiting.empty()) return false;
        taken.push_back(std::move(asked.extract(waiting.front()).mapped()));
        waiting.pop_front();
      }
    }
    for (const Unanswered& one : taken) {
      Answer answer;
      answer.record.input = one.question.name;
      fail(answer.record, error);
      deliver(one.done, std::move(answer));
    }
    return true;
  }

  void set_layers(std::int64_t done, std::int64_t all) {
    if (all > 0) layers = {static_cast<std::int32_t>(done), static_cast<std::int32_t>(all)};
  }
  /// The maps that a method of the model has beside `maps`, by name.
  void add_other_methods(std::vector<MapChoice>& maps) const {
    for (const model::explain::MethodEntry& entry : model::explain::methods()) {
      if (std::ranges::find(usual_maps, entry.method, &MapChoice::method) != usual_maps.end())
        continue;
      MapWords words = *request.maps;
      words.methods = {std::string(entry.name)};
      words.heads.clear();
      try {
        for (const MapChoice& choice : choose_maps(session->config(), words).maps)
          maps.push_back(choice);
      } catch (const Error&) {  // this model has none of them
      }
    }
  }

  /// Not under the mutex.
  void deliver(const Done& done, Answer answer) {
    {
      const std::lock_guard lock(mutex);
      --unanswered;
    }
    layers = LayersDone{};
    changed.notify_all();
    done(std::move(answer));
  }

  std::vector<MapChoice> choose(const MapQuestion& question) const {
    if (session->explained().maps.empty())
      throw UsageError("the model was opened without maps", "maps", "open it for them");
    const MapWords& words = question.words;
    if (words.methods.empty() && words.layers.empty() && words.heads.empty()) return usual_maps;
    std::vector<MapChoice> maps = choose_maps(session->config(), words).maps;
    for (const MapChoice& choice : maps) {
      if (std::ranges::find(session->explained().maps, choice) != session->explained().maps.end())
        continue;
      throw UsageError("the model was opened for other maps",
                       std::string(model::explain::entry_of(choice.method).name) + ", layer " +
                           std::to_string(choice.layer) + ", head " + to_text(choice.head),
                       "name it when the model is opened, too");
    }
    return maps;
  }

  ServiceRequest request;
  // Made by `open`.
  std::unique_ptr<Session> session;
  std::vector<std::string> notes_on_model;
  std::vector<MapChoice> usual_maps;  // that come unless some are named

  std::atomic<LayersDone> layers = {};
  mutable std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  std::vector<std::string> notes;            // that the console was told
  std::deque<std::int64_t> waiting;          // numbers of what nobody has looked at
  std::map<std::int64_t, Unanswered> asked;  // all that is not answered
  std::int64_t asked_so_far = 0;
  std::int64_t unanswered = 0;
  bool closing = false;
  std::thread thread;
};

void Service::ask(Question question, std::function<void(Answer)> done) {
  State& state = *state_;
  const Session& session = *state.session;
  if (question.picture) check_pixels(question.picture->pixels);
  Unanswered one{.question = std::move(question), .done = std::move(done)};
  if (const std::optional<MapQuestion>& wanted = one.question.maps) {
    one.maps = state.choose(*wanted);
    one.classes.emplace(wanted->classes, wanted->topk, labels());
    const std::int64_t count = one.classes->most_classes() * std::ssize(one.maps);
    const std::optional<std::int64_t>& most = state.request.most_maps;
    if (most && count > *most)
      throw UsageError("expected at most " + std::to_string(*most) + " maps of a picture, found " +
                           std::to_string(count),
                       "maps", "fewer classes, layers or heads have fewer");
  }
  if (!one.question.embeds) require_classes(session.source());
  if (one.question.patch && maps().empty())
    throw UsageError("the model was opened without maps", "patch", "open it for them");
  if (one.question.embeds && !session.explained().embeddings)
    throw UsageError("the model was opened without embeddings", "embed", "open it for them");
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] {
      return std::cmp_less(state.unanswered, std::max<std::size_t>(state.request.most_waiting, 1));
    });
    ++state.unanswered;
    state.asked.emplace(state.asked_so_far, std::move(one));
    state.waiting.push_back(state.asked_so_far++);
  }
  state.changed.notify_all();
}

Service::Service(ServiceRequest request) : state_(std::make_unique<State>(std::move(request))) {
  std::promise<void> opening;
  std::future<void> is_open = opening.get_future();
  state_->thread = std::thread([state = state_.get(), opening = std::move(opening)]() mutable {
    try {
      state->open();
    } catch (...) {
      opening.set_exception(std::current_exception());
      return;
    }
    opening.set_value();
    while (state->serve()) {
    }
  });
  try {
    is_open.get();
  } catch (...) {
    state_->thread.join();
    throw;
  }
}

Service::~Service() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

std::future<Answer> Service::ask(Question question) {
  const auto answer = std::make_shared<std::promise<Answer>>();
  std::future<Answer> result = answer->get_future();
  ask(std::move(question), [answer](Answer given) { answer->set_value(std::move(given)); });
  return result;
}

const std::string& Service::model_name() const noexcept { return state_->session->source().name; }
const model::VitConfig& Service::config() const noexcept { return state_->session->config(); }
const image::Labels& Service::labels() const { return state_->session->labels(); }
const InputRecord& Service::run_facts() const noexcept { return state_->session->facts(); }
const image::Views& Service::views() const noexcept { return state_->session->transform().views; }
std::string Service::transform() const { return image::describe(state_->session->transform()); }
std::vector<std::int64_t> Service::patch_layers() const {
  std::vector<std::int64_t> layers;
  if (maps().empty()) return layers;
  for (const std::int64_t layer :
       MapExplainer::traced_layers(config(), state_->session->explained()))
    if (model::explain::why_not(config(), model::explain::Method::attention, layer).empty())
      layers.push_back(layer);
  return layers;
}
const std::vector<MapChoice>& Service::maps() const noexcept {
  return state_->session->explained().maps;
}
const std::vector<MapChoice>& Service::usual_maps() const noexcept { return state_->usual_maps; }
std::vector<std::string> Service::notes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->notes;
}

std::int64_t Service::batch_size() const {
  const std::int64_t given = state_->session->pipeline().batch_size;
  if (given > 0) return given;
  const auto& [height, width] = state_->session->transform().img_size;
  const model::inference::Engine& engine = state_->session->engine();
  constexpr std::int64_t kMostAutomaticBatch = 256;
  return std::clamp<std::int64_t>(engine.enough_tokens() / engine.num_tokens(height, width), 1,
                                  kMostAutomaticBatch);
}

LayersDone Service::layers_done() const { return state_->layers; }

std::int64_t Service::unanswered() const {
  const std::lock_guard lock(state_->mutex);
  return state_->unanswered;
}

}  // namespace hydrascope::app
