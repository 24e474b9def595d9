// hydrascope search: the stored pictures that are nearest to others.
#include "app/command.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/results/report.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "app/tasks/features.h"
#include "app/tasks/record_run.h"
#include "kernels/stopwatch.h"
#include "model/image/decode.h"
#include "viz/picture/encode.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMatchColumns =
    "input frame time rank=/matches/rank name=/matches/name label=/matches/label "
    "similarity=/matches/similarity seconds error_code=/error/code error_message=/error/message";

SearchRequest search_request(const ParsedOptions& options) {
  SearchRequest request{one_view_request(options, AutoExif::upright)};
  options.fill(request);
  if (request.words.empty())
    throw UsageError("expected a store and pictures", "search",
                     "hydrascope search store.safetensors photo.jpg");
  request.model.may_lack_classes = true;
  request.store = request.words.front();
  request.words.erase(request.words.begin());
  if (request.output.format == Format::html)
    check_output_file(request.output.file, "`output`", FileKind::text);
  return request;
}

std::string label_of(const VectorStore& store, const Neighbour& one) {
  const std::int64_t index = store.class_of(one.index);
  return index < 0 ? "" : store.labels()[static_cast<std::size_t>(index)];
}

/// The record and its text for people.
std::pair<OrderedJson, std::string> record_of(const PipelineResult& result,
                                              const VectorStore& store,
                                              const std::vector<Neighbour>& found, bool color) {
  InputRecord head;
  head.input = result.input.given;
  head.frame = result.frame;
  head.time = result.time;
  head.error = result.error;
  head.message = spelled(result.message);
  OrderedJson json = begin_json(head);
  std::string text = begin_text(head, color);
  if (result.error) return {json, text};
  text += "\n";
  OrderedJson matches = OrderedJson::array();
  for (const Neighbour& one : found) {
    const std::string name(store.name_of(one.index));
    OrderedJson match = {{"rank", std::ssize(matches) + 1}};
    add_path(match, "name", name);
    const std::string label = label_of(store, one);
    if (!label.empty()) match["label"] = label;
    match["similarity"] = rounded(one.similarity);
    text += "  " + std::to_string(std::ssize(matches) + 1) + "  " + fixed(one.similarity, 4) +
            "  " + printable(name) + (label.empty() ? "" : "  " + printable(label)) + "\n";
    matches.push_back(std::move(match));
  }
  json["matches"] = std::move(matches);
  json["seconds"] = rounded(result.seconds);
  return {json, text};
}

/// Each input beside the stored pictures that are nearest to it, for a page.
class MatchGalleries {
 public:
  MatchGalleries(const VectorStore& store, image::DecodeOptions decode)
      : store_(store), decode_(std::move(decode)) {}

  /// Takes the input's pixels. A stored picture is read anew (`file_of`); without its file it is grey.
  void add(PipelineResult& result, const std::vector<Neighbour>& found) {
    constexpr std::size_t kMostPictures = 600;  // of 200 kB each
    if (num_pictures_ + 1 + found.size() > kMostPictures) {
      ++num_left_out_;
      return;
    }
    num_pictures_ += 1 + found.size();
    std::string name = result.input.given;
    if (result.frame) name += " frame " + std::to_string(*result.frame);
    image::Picture& pixels = result.pixels;
    Gallery& gallery = galleries_.emplace_back(Gallery{"Nearest to " + name, {}});
    gallery.pictures.push_back(
        {name, thumbnail({pixels.width, pixels.height, std::move(pixels.rgb)}), {"searched for"}});
    for (const Neighbour& one : found) {
      std::vector<std::string> caption{"similarity " + fixed(one.similarity, 4)};
      if (const std::string label = label_of(store_, one); !label.empty()) caption.push_back(label);
      gallery.pictures.push_back(
          {std::string(store_.name_of(one.index)), stored_picture(one.index), std::move(caption)});
    }
  }
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (num_missing_ > 0)
      notes.push_back(std::to_string(num_missing_) + " stored " +
                      (num_missing_ == 1 ? "picture is" : "pictures are") + " grey, the first is " +
                      first_missing_);
    if (num_left_out_ > 0)
      notes.push_back("the first " + std::to_string(galleries_.size()) + " inputs are shown, " +
                      std::to_string(num_left_out_) + " are not");
    return notes;
  }
  [[nodiscard]] bool empty() const noexcept { return num_pictures_ == 0; }
  /// Once.
  std::vector<Gallery> take() { return std::exchange(galleries_, {}); }

 private:
  /// A relative name is looked for beside the store, behind links, in the folders above it, then here: the
  /// file of the stored size and time, else the nearest one. Without these a file from here is another one.
  [[nodiscard]] fs::path file_of(std::int64_t picture, const std::string& name) const {
    const FileStamp stamp = store_.files()[static_cast<std::size_t>(picture)];
    const auto is_same = [&](const fs::path& file) {
      return stamp != kNoStamp && stamp_of(file_input(name, file)) == stamp;
    };
    fs::path stored = path_of_address(name);
    if (stored.empty()) stored = name;
    std::error_code ignored;
    std::optional<fs::path> nearest;
    fs::path folder = fs::weakly_canonical(store_.file(), ignored);
    while (folder.has_relative_path()) {
      folder = folder.parent_path();
      if (is_same(folder / stored)) return folder / stored;
      if (!nearest && fs::exists(folder / stored, ignored)) nearest = folder / stored;
    }
    if (is_same(stored) || (stamp == kNoStamp && !nearest)) return stored;
    return nearest.value_or(folder / stored);  // which is not there
  }

  viz::Canvas stored_picture(std::int64_t number) {
    const std::string name(store_.name_of(number));
    const fs::path file = file_of(number, name);
    std::error_code ignored;
    try {
      // A pipe or a device of that name would be waited for.
      if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))
        throw Error(ErrorCode::unreadable, "is no file", name);
      image::Picture picture = image::read_picture(file, decode_);
      return thumbnail({picture.width, picture.height, std::move(picture.rgb)});
    } catch (const Error& error) {
      constexpr viz::Color kGrey{200, 200, 200};
      if (num_missing_++ == 0)
        first_missing_ =
            name + ": " + error.what() +
            (error.code() == ErrorCode::not_found ? " here, beside the store or above it" : "");
      return viz::filled(kGalleryEdge, kGalleryEdge * 3 / 4, kGrey);
    }
  }

  const VectorStore& store_;
  image::DecodeOptions decode_;
  std::vector<Gallery> galleries_;
  std::size_t num_pictures_ = 0;
  std::size_t num_left_out_ = 0;
  std::size_t num_missing_ = 0;
  std::string first_missing_;
};

Report report_of(const Session& session, const VectorStore& store, MatchGalleries& galleries) {
  Report report("hydrascope search: " + store.file());
  report.line = session.source().name + " \u00b7 " + store.facts().features + " \u00b7 " +
                std::to_string(store.size()) + " stored pictures";
  report.add("store", store.file());
  report.add("stored_pictures", store.size());
  report.add("model", session.source().name);
  report.add("attention", store.facts().attention);
  report.add("features", store.facts().features);
  report.add("transform", store.facts().transform);
  report.add("device", session.facts().device);
  report.add("precision", session.facts().precision);
  report.notes = galleries.notes();
  report.galleries = [&] { return galleries.take(); };
  return report;
}

}  // namespace

int run_search(const ParsedOptions& options) {
  refuse_shares();
  const SearchRequest request = search_request(options);
  const VectorStore store(request.store);
  store.require_one_vector_each();
  const std::string features = store.facts().features;
  const std::unique_ptr<Session> session =
      Session::open(request, feature_source(open_model(request.model), features));
  require_inputs(request.words, "search");
  store.facts().require_same(facts_of(session->source(), session->transform(),
                                      request.run.decode.apply_exif, features, ""),
                             store.file());
  session->announce();
  const std::jthread decoders = image::prepare_to_decode(request.words);
  session->load({.embeddings = true});
  const bool is_page = request.output.format == Format::html;
  session->pipeline().keep_picture = is_page;

  MatchGalleries galleries(store, session->pipeline().decode);
  std::vector<std::string> failures;
  const auto record = [&](PipelineResult& result) {
    const Clock::time_point begin = Clock::now();
    std::vector<Neighbour> found;
    if (!result.error) found = store.nearest(result.features.unsqueeze(0), request.top).front();
    result.seconds += seconds_since(begin);
    if (is_page && result.error)
      failures.push_back(error_line(Error(*result.error, result.message, result.input.given)));
    else if (is_page)
      galleries.add(result, found);
    return record_of(result, store, found, request.console.color);
  };
  const int code = write_records(
      *session, request,
      {.command = "search", .columns = kMatchColumns, .each = "matches", .record = record});
  if (!is_page) return code;
  for (const std::string& note : galleries.notes()) request.console.note("note: " + note);
  Report report = report_of(*session, store, galleries);
  report.notes.insert(report.notes.end(), failures.begin(), failures.end());
  OutputFile output(request.output.file);
  report.write(Format::html, output.stream());
  output.close();
  return code;
}

}  // namespace hydrascope::app
