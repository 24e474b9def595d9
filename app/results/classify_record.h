// The record of a picture: schema 2 of `classify`.
#pragma once

#include "app/results/json.h"
#include "app/results/table.h"
#include "kernels/error.h"
#include "model/image/transform_plan.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

// The common part of the records of `classify` and of `visualize`: whose they are, or why there is
// no more to say, and what ran.

/// A part of a picture, in its pixels after EXIF orientation.
struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

/// One of the top-k classes.
struct Prediction {
  int rank = 1;            ///< from 1
  std::int64_t index = 0;  ///< 0-based class index
  std::string id;          ///< synset id, "" if the labels have none
  std::string label;       ///< class name
  double prob = 0;         ///< softmax over all classes
  double logit = 0;
  std::optional<Box> box = {};  ///< the view that says most of it, where its place is known
  /// The point where the evidence for it is densest, x and y in pixels of the picture; only beside a box.
  std::optional<std::array<std::int64_t, 2>> mark = {};
};

enum class LabelType { name, id, index };
/// "id", "index", else the name.
LabelType parse_label_type(std::string_view word);
/// The name or id of a class; its name where there is no id.
std::string label_text(const Prediction& prediction, LabelType label_type);

struct InputRecord {
  std::string input;                  ///< bytes as given
  std::optional<std::int64_t> frame;  ///< frame number of a video, from 0
  std::optional<double> time;         ///< of the frame, in seconds from the video's first
  std::int64_t width = 0;             ///< of the picture, after orientation
  std::int64_t height = 0;
  std::array<std::int64_t, 2> model_size{};  ///< height, width fed to the model
  /// The views of a picture that was seen in parts: each one's best class with its box, and its share of the answer.
  struct View {
    Prediction best;
    double weight = 0;
  };
  std::vector<View> views = {};
  std::string finder = {};  ///< the model that found these
  std::string device;       ///< "cpu", "cuda:0"
  std::string precision;    ///< "float32", ...
  std::string attention;    ///< "softmax", "softmax:0-9,hydra:10-11"
  std::map<std::string, std::string> attention_options = {};  ///< "hydra.scale" -> "linear"
  std::map<std::string, std::string> approximations = {};     ///< "calibration" -> "none"
  /// A fact that the user must know ("padded 1080x1920 to 1088x1920 (HxW)"); left out when this is empty.
  std::string note;
  /// Further notes for the user, which a command says on stderr; left out when this is empty.
  std::vector<std::string> notes = {};
  double seconds = 0;  ///< of the model
  /// The number of pictures that the model saw at once, whose time `seconds` is an equal share of. Text alone
  /// says it: it depends on the moment, and other records of the same pictures are the same but for `seconds`.
  std::int64_t batch_size = 1;
  /// Set: only `input` (and `frame`, `time`) and the error are written.
  std::optional<ErrorCode> error;
  std::string message;
};

/// As records spell it: wrong usage is about the command, not about an input, and becomes
/// "internal".
std::string record_error_code(ErrorCode code);

/// {"schema":2,"input":...,"frame":...,"time":...}; a failed input's has its error, and is complete.
OrderedJson begin_json(const InputRecord& record);
/// The same for people; a failed input's is a whole line.
std::string begin_text(const InputRecord& record, bool color);

/// width, height, model_size.
void add_sizes(OrderedJson& object, const InputRecord& record);
/// The model that found the views, where there are several, and the views.
void add_views(OrderedJson& object, const InputRecord& record);
/// attention, and its options and what is approximated where there are any.
void add_attention(OrderedJson& object, const InputRecord& record);
/// index, id, label, prob.
void add_class(OrderedJson& object, const Prediction& prediction);
/// The box and the mark of a class, where its place is known.
void add_place(OrderedJson& object, const Prediction& prediction);
/// note, where there is one, seconds, and the batch that they are a share of.
void add_end(OrderedJson& object, const InputRecord& record);

/// "2160x3840 -> 224x224 (HxW)": of the picture and of a view of it.
std::string sizes_text(const InputRecord& record);

/// The probability below which an answer is called unsure: docs/notes/zoom.md.
inline constexpr double kSure = 0.55;

struct ClassifyRecord : InputRecord {  ///< its seconds: its batch's / batch size, and its views'
  std::int64_t tokens = 0;             ///< of a view
  /// The layer behind which the picture left the model; nothing where no picture may leave.
  std::optional<std::int64_t> exit_layer = {};
  std::vector<Prediction> top;  ///< the answer: `top_classes`
  /// The nearest named group of the first class that says more: `ClassGroups::answer`.
  struct Group {
    std::string name;
    double prob = 0;  ///< of all its classes together
  };
  std::optional<Group> group = {};
  bool unsure = false;       ///< neither the first class nor a group of it has `kSure`
  std::string kernels = {};  ///< "fused+modules", "modules", "reference"; "" where all are fused
};

/// Schema 2 of the command line's contract. Probabilities have six significant digits, logits four
/// decimals, seconds six.
OrderedJson to_json(const ClassifyRecord& record);

/// The columns of csv: one row a prediction (`kClassifyRows`); a failed input is one row whose numbers
/// are empty.
inline constexpr std::string_view kClassifyColumns =
    "input frame time width height model_height=/model_size/0 model_width=/model_size/1 "
    "tokens rank=/top/rank index=/top/index id=/top/id "
    "label=/top/label prob=/top/prob logit=/top/logit box_left=/top/box/left box_top=/top/box/top "
    " box_width=/top/box/width box_height=/top/box/height group=/group/label "
    "group_prob=/group/prob unsure device "
    "precision attention attention_options approximations kernels note seconds exit_layer "
    "error_code=/error/code error_message=/error/message";
inline constexpr const char* kClassifyRows = "top";

/// A line about the input, then one line per prediction:
///
///     otters.jpg  3840x2160 -> 224x224  197 tokens  13.4 ms  cpu float32 softmax
///       1  93.12 %  otter  (n02444819)
///       2   3.40 %  mink   (n02442845)
///
/// The time of a picture in a batch is its share: "13.4 ms each in a batch of 8".
/// A prediction whose place is known says where: "at 560,448 in 224x224+448+336", the mark and the box. A picture that
/// was seen in parts says in how many views: "8 views of 224x224". The first class has its group beside it, "otter
/// 50.00 %, mammal 94.00 %", or the word "unsure".
/// `label_type`: what the label column shows.
std::string to_text(const ClassifyRecord& record, LabelType label_type, bool color);

}  // namespace hydrascope::app
