#include "app/visualize/output_stage.h"

#include "app/pictures/inputs.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "kernels/error.h"
#include "kernels/new_file.h"

#include <algorithm>
#include <array>
#include <new>
#include <sys/stat.h>
#include <system_error>
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
  if (is_taken(name) || !taken_.insert(name).second) {
    int& number = last_number_.try_emplace(stem, 1).first->second;
    do {
      name = stem + "-" + std::to_string(++number);
    } while (is_taken(name) || !taken_.insert(name).second);
  }
  return name;
}

bool OutputNames::is_taken(const std::string& name) {
  return std::ranges::any_of(endings_, [&](const std::string& ending) {
    const std::filesystem::path path = folder_ / (name + ending);
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0) return false;
    const bool is_array = ending.starts_with(".map");
    if (!may_be_replaced(path, is_array ? FileKind::array : FileKind::picture)) return true;
    if (!inputs_) inputs_ = find_inputs();
    return inputs_->contains({file.st_dev, file.st_ino});
  });
}

std::set<OutputNames::FileNumber> OutputNames::find_inputs() const {
  std::vector<std::string> words = words_;
  std::erase_if(words, [](const std::string& word) { return !can_be_walked_twice(word); });
  InputStream inputs(std::move(words), recursive_);
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

/// numpy.load gives the map itself, (rows, columns), or (maps, rows, columns) of several.
void write_maps(const std::filesystem::path& file, std::span<const InputMap> maps) {
  const viz::HeatMap& first = maps.front().map;
  std::vector<std::int64_t> shape{first.rows, first.columns};
  if (maps.size() > 1) shape.insert(shape.begin(), std::ssize(maps));
  const std::string header = npy_header(shape);
  NewFile written(file);
  written.write(std::as_bytes(std::span(header)));
  for (const InputMap& map : maps) {
    check_shape(std::array{first.rows, first.columns}, map.map.values.size(), file.string());
    written.write(std::as_bytes(std::span(map.map.values)));
  }
  written.commit();
}

/// PNG, or JPEG where a PNG would take some 8 MB and more.
std::string_view ending_of(const viz::Canvas& figure) {
  constexpr std::int64_t kMostOfPng = 4'000'000;  // pixels
  const bool is_large = std::int64_t{figure.width} * figure.height > kMostOfPng &&
                        viz::fits(viz::ImageFormat::jpeg, figure.width, figure.height);
  return viz::extension(is_large ? viz::ImageFormat::jpeg : viz::ImageFormat::png);
}

/// Its message names the file, which is not the input.
MapRecord failure_of(MapRecord facts, const Error& error) {
  facts.error = error.code();
  facts.message = error.about() + ": " + error.what();
  return facts;
}

/// Takes the picture.
viz::ReportPicture report_picture(ExplainedInput& input) {
  viz::ReportPicture page;
  const MapRecord& facts = input.facts;
  page.name = facts.input;
  if (facts.frame) page.name += " frame " + std::to_string(*facts.frame);
  if (facts.time) page.name += " at " + fixed(*facts.time, 3) + " s";
  page.picture = std::move(input.picture);
  OrderedJson answer = explained_json(input.record, input.maps);
  if (const auto& against = input.against)
    answer["against"] = explained_json(against->record, against->maps);
  page.answer = json_text(answer);
  for (const Prediction& prediction : input.record.top)
    page.top.push_back(caption(prediction, LabelType::name));
  for (const InputMap& map : input.maps)
    page.finest_grid = std::max({page.finest_grid, map.map.rows, map.map.columns});
  return page;
}

}  // namespace

OutputStage::OutputStage(OutputOptions options, WriteRecords write)
    : options_(std::move(options)),
      write_(std::move(write)),
      workers_(options_.threads, options_.threads + 1) {
  if (options_.file.empty()) make_folder(options_.folder);
  if (!options_.html.empty()) page_.emplace(options_.html, options_.report);
}

void OutputStage::add(ExplainedInput input) {
  // The content of a std::function must be copyable.
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
    if (page_ && job.on_page) {
      viz::ReportPicture picture = report_picture(job);
      job.page = page_->prepare(picture);
      job.picture = std::move(picture.picture);
    }
    auto figure = std::make_shared<viz::Canvas>(
        draw_figure(std::move(job.picture), job.shown, options_.figure, job.frame_size));
    job.shown.clear();
    if (!job.video) {
      write_picture(job, *figure);
      return [this, input] { report(*input); };
    }
    job.facts.heatmap_file = job.video->heatmap_file().string();
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

void OutputStage::write_picture(ExplainedInput& input, const viz::Canvas& figure) {
  const std::filesystem::path heatmap =
      options_.file.empty() ? file(input.name, ".heatmap" + std::string(ending_of(figure)))
                            : options_.file;
  viz::write_image(heatmap, figure);
  input.facts.heatmap_file = heatmap.string();
  if (!options_.save_raw) return;
  const std::filesystem::path maps =
      options_.file.empty() ? file(input.name, ".map.npy") : options_.file_of_maps();
  write_maps(maps, input.maps);
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
