#include "app/visualize/output_stage.h"

#include "app/pictures/inputs.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "kernels/error.h"
#include "kernels/new_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <tuple>
#include <utility>

namespace hydrascope::app {

namespace {

/// Linux takes 255 bytes; the rest is for numbers, ".heatmap.png" and a temporary suffix.
constexpr std::size_t kLongestName = 200;

/// Not in the middle of a UTF-8 character.
std::string cut(std::string name) {
  if (name.size() <= kLongestName) return name;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  name.resize(end);
  return name;
}

}  // namespace

std::string OutputNames::name_for(const std::filesystem::path& input) {
  std::string stem = cut(input.stem().native());
  if (stem.empty() || stem == "." || stem == "..") stem = "input";
  std::string name = stem;
  if (is_input(name) || !taken_.insert(name).second) {
    int& number = last_number_.try_emplace(stem, 1).first->second;
    do {
      name = stem + "-" + std::to_string(++number);
    } while (is_input(name) || !taken_.insert(name).second);
  }
  return name;
}

bool OutputNames::is_input(const std::string& name) {
  return std::ranges::any_of(endings_, [&](const std::string& ending) {
    struct stat file {};
    if (::stat((folder_ / (name + ending)).c_str(), &file) != 0) return false;
    if (!inputs_) inputs_ = find_inputs();
    return inputs_->contains({file.st_dev, file.st_ino});
  });
}

std::set<OutputNames::FileNumber> OutputNames::find_inputs() const {
  std::vector<std::string> words = words_;
  std::erase_if(words, [](const std::string& word) { return !can_be_walked_twice(word); });
  std::istringstream nothing;
  InputStream inputs(std::move(words), recursive_, nothing);
  std::set<FileNumber> numbers;
  while (const std::optional<Input> input = inputs.next())
    if (struct stat file{}; ::stat(input->path.c_str(), &file) == 0)
      numbers.emplace(file.st_dev, file.st_ino);
  return numbers;
}

namespace {

std::filesystem::path make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::error_code ignored; !std::filesystem::is_directory(folder, ignored))
    throw Error(ErrorCode::unwritable, "cannot make the folder for heatmaps: " + error.message(),
                folder.string(), "`output` names a folder");
  return folder;
}

/// numpy.load gives the map itself, (rows, columns).
void write_map(const std::filesystem::path& file, const viz::HeatMap& map) {
  const std::string header = npy_header(std::array{map.rows, map.columns});
  NewFile written(file);
  written.write(std::as_bytes(std::span(header)));
  written.write(std::as_bytes(std::span(map.values)));
  written.commit();
}

void write_maps(const std::filesystem::path& file, std::span<const InputMap> maps) {
  NpzWriter writer(file);
  for (const InputMap& map : maps)
    writer.add(array_name(map), map.map.values, std::array{map.map.rows, map.map.columns});
  writer.close();
}

/// Its message names the file, which is not the input.
MapRecord failure_of(MapRecord facts, const Error& error) {
  facts.error = error.code();
  facts.message = error.subject() + ": " + error.what();
  return facts;
}

viz::ReportPrediction report_prediction(const Prediction& prediction) {
  return {prediction.index, prediction.label, prediction.prob};
}

viz::ReportAnswer report_answer(const ModelAnswer& answer) {
  viz::ReportAnswer page;
  page.placement = answer.maps.front().placement;
  for (const Prediction& prediction : answer.top) page.top.push_back(report_prediction(prediction));
  for (std::size_t i = 0; i < answer.maps.size(); ++i) {
    const InputMap& map = answer.maps[i];
    const model::explain::MethodEntry& entry = model::explain::entry_of(map.choice.method);
    viz::ReportMap& shown = page.maps.emplace_back();
    shown.method = entry.name;
    shown.layer = map.choice.layer;
    shown.head = to_text(map.choice.head);
    if (entry.of_class) {
      shown.class_index = map.of_class.index;
      const auto is_class = [&](const viz::ReportPrediction& known) {
        return known.index == map.of_class.index;
      };
      if (std::ranges::none_of(page.top, is_class) && std::ranges::none_of(page.others, is_class))
        page.others.push_back(report_prediction(map.of_class));
    }
    shown.map = map.map;
    shown.is_signed = map.is_signed;
    shown.range = answer.shown[i].range;
    shown.own_share = map.own_share;
    shown.total = map.total;
    shown.is_additive = map.is_additive;
    shown.note = note_of(map);
  }
  return page;
}

/// Takes the picture.
viz::ReportPicture report_picture(ExplainedInput& input) {
  viz::ReportPicture page;
  static_cast<viz::ReportAnswer&>(page) = report_answer(input);
  if (input.against) page.against = report_answer(*input.against);
  const MapRecord& facts = input.facts;
  page.name = facts.input;
  if (facts.frame) page.name += " frame " + std::to_string(*facts.frame);
  if (facts.time) page.name += " at " + fixed(*facts.time, 3) + " s";
  page.picture = std::move(input.picture);
  const auto size = [](std::int64_t width, std::int64_t height) {
    return std::to_string(height) + "x" + std::to_string(width) + " (HxW)";
  };
  page.facts = {{"size", size(facts.width, facts.height)},
                {"model input", size(facts.model_size[1], facts.model_size[0])},
                {"file", facts.heatmap_file}};
  if (!facts.note.empty()) page.facts.emplace_back("note", facts.note);
  const auto share = [](std::int64_t pixels, std::int64_t edge) {
    return static_cast<double>(pixels) / static_cast<double>(edge);
  };
  for (const Prediction& thing : facts.things)
    page.boxes.push_back({share(thing.box->left, facts.width), share(thing.box->top, facts.height),
                          share(thing.box->width, facts.width),
                          share(thing.box->height, facts.height), thing.label});
  return page;
}

}  // namespace

OutputStage::OutputStage(OutputOptions options, WriteRecords write)
    : options_(std::move(options)),
      write_(std::move(write)),
      workers_(options_.threads, options_.threads + 1) {
  make_folder(options_.folder);
  if (!options_.html.empty()) page_.emplace(options_.html, options_.report);
}

void OutputStage::add(ExplainedInput input) {
  // What std::function holds must be copyable.
  const auto shared = std::make_shared<ExplainedInput>(std::move(input));
  workers_.submit([this, shared] { return produce(shared); });
}

void OutputStage::add_failure(MapRecord record) {
  workers_.submit(
      [this, record = std::move(record)] { return [this, record] { report(record, true); }; });
}

void OutputStage::close(std::shared_ptr<VideoOutput> video, MapRecord facts) {
  workers_.submit([this, video = std::move(video), facts = std::move(facts)] {
    return [this, video, facts] {
      try {
        video->close();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
        report(failure_of(facts, error), true);
      }
    };
  });
}

void OutputStage::finish() {
  workers_.finish();
  if (page_) page_->finish();
}

OrderedWorkers::Second OutputStage::produce(const std::shared_ptr<ExplainedInput>& input) {
  ExplainedInput& job = *input;
  try {
    job.facts.heatmap_file =
        job.video ? job.video->heatmap_file().string() : heatmap_file(job.name).string();
    if (page_ && job.on_page) {
      viz::ReportPicture picture = report_picture(job);
      job.page = page_->prepare(picture);
      job.picture = std::move(picture.picture);
    }
    auto figure = std::make_shared<viz::Canvas>(draw_figure(
        std::move(job.picture), job.shown, options_.figure, options_.font.get(), job.frame_size));
    job.shown.clear();
    if (!job.video) {
      write_picture(job, *figure);
      return [this, input] { report(*input); };
    }
    job.facts.map_file = job.video->map_file().string();
    return [this, input, figure] { add_to_video(*input, *figure); };
  } catch (const std::bad_alloc&) {
    job.facts.error = ErrorCode::out_of_memory;
    job.facts.message = "not enough memory to draw the heatmap";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    job.facts.error = error.code();
    job.facts.message = error.what();
  }
  return [this, input] { report(input->facts, input->on_page); };
}

void OutputStage::add_to_video(ExplainedInput& input, const viz::Canvas& figure) {
  try {
    input.video->add(figure, input.maps, input.facts.time);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    report(failure_of(input.facts, error), input.on_page);
    return;
  }
  report(input);
}

std::filesystem::path OutputStage::heatmap_file(const std::string& name) const {
  return file(name, ".heatmap" + std::string(viz::extension(options_.image_format)));
}

void OutputStage::write_picture(ExplainedInput& input, const viz::Canvas& figure) {
  viz::write_image(heatmap_file(input.name), figure, options_.image_format, options_.encode);
  if (!options_.save_raw) return;
  const bool is_alone = input.maps.size() == 1;
  const auto maps = file(input.name, is_alone ? ".map.npy" : ".map.npz");
  if (is_alone) {
    write_map(maps, input.maps.front().map);
  } else {
    write_maps(maps, input.maps);
  }
  input.facts.map_file = maps.string();
}

void OutputStage::report(const MapRecord& failure, bool on_page) {
  ++failed_;
  print_failure(Error(failure.error.value_or(ErrorCode::failed), failure.message, failure.input));
  write_({&failure, 1});
  if (page_ && on_page) page_->add(viz::ReportFailure{failure.input, failure.message});
}

void OutputStage::report(ExplainedInput& input) {
  std::vector<MapRecord> records;
  for (const InputMap& map : input.maps) records.push_back(record_of(input.facts, map));
  write_(records);
  if (page_ && input.on_page) page_->add(input.page);
}

}  // namespace hydrascope::app
