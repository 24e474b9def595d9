// The work that is left when an input's maps are known: drawing, encoding and writing on threads of its own,
// records and the page in input order. A few pictures are in memory, never all.
#pragma once

#include "app/maps/input_map.h"
#include "app/maps/map_record.h"
#include "app/run/ordered_workers.h"
#include "app/visualize/heat_figure.h"
#include "app/visualize/video_output.h"
#include "viz/html_report/html_report.h"
#include "viz/picture/canvas.h"
#include "viz/picture/encode.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

// The names of the files of an input.

/// Names that no other input of the run has.
class OutputNames {
 public:
  OutputNames() = default;
  /// `endings` are what is written after a name ("a" + ".heatmap.png") in `folder`: a name whose
  /// file is one of the inputs or may not be replaced is not given. `words` name the inputs as for
  /// an InputStream; they are walked once a file has such a name.
  OutputNames(std::filesystem::path folder, std::vector<std::string> endings,
              std::vector<std::string> words, bool recursive)
      : folder_(std::move(folder)),
        endings_(std::move(endings)),
        words_(std::move(words)),
        recursive_(recursive) {}

  /// The file's name without its extension; "NAME-2", "NAME-3", ... where that is taken. Cut to
  /// what leaves room for ".heatmap.png" in a file name. "input" where nothing is left of it.
  std::string name_for(const std::filesystem::path& input);

 private:
  using FileNumber = std::pair<std::uintmax_t, std::uintmax_t>;  ///< device and inode
  [[nodiscard]] bool is_taken(const std::string& name);
  [[nodiscard]] std::set<FileNumber> find_inputs() const;

  std::filesystem::path folder_;
  std::vector<std::string> endings_;
  std::vector<std::string> words_;
  bool recursive_ = false;
  std::optional<std::set<FileNumber>> inputs_;
  std::set<std::string> taken_;
  std::map<std::string, int> last_number_;  ///< of a name that came before
};

/// The formats of heatmaps: PNG, JPEG of a large figure.
inline constexpr std::array kFormatsBySize{viz::ImageFormat::png, viz::ImageFormat::jpeg};

struct OutputOptions {
  std::filesystem::path folder;
  std::filesystem::path file = {};  ///< the heatmap of the only input; empty: names by the inputs
  FigureOptions figure;
  bool save_raw = false;
  std::filesystem::path html;  ///< empty: no page
  viz::ReportOptions report;
  int threads = 1;

  /// With `file`: of its raw maps, "heat.map.npy" beside "heat.png".
  [[nodiscard]] std::filesystem::path file_of_maps() const {
    return std::filesystem::path(file).replace_extension(".map.npy");
  }
};

/// The answer of a model about a picture.
struct ModelAnswer {
  ClassifyRecord record;       ///< for the page
  std::vector<InputMap> maps;  ///< one at least
};

/// An input, or a frame of a video.
struct ExplainedInput : ModelAnswer {
  MapRecord facts;              ///< what the records of its maps have in common
  std::vector<ShownMap> shown;  ///< the maps, ready to be drawn
  std::string name;             ///< of its files; unused with `video`
  viz::Canvas picture;
  std::optional<ModelAnswer> against;  ///< of `--against`, for the page
  std::shared_ptr<VideoOutput> video;
  std::optional<viz::Size> frame_size;  ///< with `video`: of its first picture
  bool on_page = true;                  ///< where there is a page
  viz::PreparedPicture page;            ///< filled on the way, where it is on the page
};

class OutputStage {
 public:
  using WriteRecords = std::function<void(std::span<const MapRecord>)>;
  /// `write` gets the records of an input: one per map, or one of a failure; in input order, one
  /// input at a time, on any thread. Makes the folder, where names are given
  /// in one. Throws Error(unwritable) where it cannot be made.
  OutputStage(OutputOptions options, WriteRecords write);

  /// Waits while enough is under way. A picture that cannot be encoded becomes a failure, as does
  /// every frame of a video that cannot be written; what else goes wrong (a full disk) ends the
  /// run: this and `finish` throw it.
  void add(ExplainedInput input);
  void add_failure(MapRecord record);
  /// No frames of `video` will come. `facts` are of the failure, should it not be written whole.
  void close(std::shared_ptr<VideoOutput> video, MapRecord facts);
  /// Waits for all, and completes the page.
  void finish();
  /// Inputs (or frames) that failed, so far.
  [[nodiscard]] std::int64_t failed() const noexcept { return failed_.load(); }

 private:
  [[nodiscard]] std::filesystem::path file(const std::string& name,
                                           const std::string& ending) const {
    return options_.folder / (name + ending);
  }
  /// On a worker: what needs no order. Returns what does.
  OrderedWorkers::Second produce(const std::shared_ptr<ExplainedInput>& input);
  void write_picture(ExplainedInput& input, const viz::Canvas& figure);
  void add_to_video(ExplainedInput& input, const viz::Canvas& figure);
  void report(const MapRecord& failure, bool on_page);
  void report(ExplainedInput& input);

  OutputOptions options_;
  WriteRecords write_;
  std::optional<viz::HtmlReport> page_;
  std::atomic<std::int64_t> failed_ = 0;
  OrderedWorkers workers_;  // last: its threads use the others
};

}  // namespace hydrascope::app
