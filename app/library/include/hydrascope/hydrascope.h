/* Pictures in, classes and maps out: hydrascope as a library. C functions, and in C++17 classes
   around them at the end. Errors carry the same words as the program's.

   A model is opened with options as on the command line ("--attn", "hydra:last4") and may be asked
   from any thread; pictures of several callers are classified together. Names and texts are UTF-8
   and end with a zero byte; what a model or an answer points to lives as long as that does.

   A null pointer is an error, "invalid_argument", but for a list of length 0, what a picture has not, and in
   hydrascope_close and hydrascope_free. A call that failed returns null, or else not 0. */
#ifndef HYDRASCOPE_HYDRASCOPE_H
#define HYDRASCOPE_HYDRASCOPE_H

#include <stddef.h>
#include <stdint.h>

#define HYDRASCOPE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hydrascope_model hydrascope_model;
typedef struct hydrascope_answer hydrascope_answer;

/* What a model can be asked for besides classes: when it is opened, and when it is asked. */
enum { HYDRASCOPE_MAPS = 1, HYDRASCOPE_EMBEDDING = 2 };

/* One of the three: a file, the bytes of one, or pixels. */
typedef struct hydrascope_picture {
  const char* name; /* in records; null: the path, or nothing */
  const char* path;
  const void* bytes;
  size_t num_bytes;
  const uint8_t* pixels; /* RGB, rows from top to bottom, `row_stride` bytes apart */
  int64_t height;
  int64_t width;
  int64_t row_stride; /* 0: 3 * width */
} hydrascope_picture;

typedef struct hydrascope_prediction {
  int64_t index;  /* of the class, from 0 */
  const char* id; /* "" where the labels have none */
  const char* label;
  double probability; /* of all classes */
  double logit;
  int has_box; /* with --views zoom, and by default in large pictures: the view that says most of the class, in pixels of the picture */
  int64_t left, top, width, height;
} hydrascope_prediction;

typedef struct hydrascope_map {
  const float* values; /* (rows, columns), as `visualize --save-raw` writes them */
  int64_t rows;
  int64_t columns;
  /* The rectangle that the cells divide evenly, in pixels of the picture as it is seen upright; it
     may reach beyond the picture. */
  double left, top, width, height;
  const char* method;
  int64_t layer;
  const char* head; /* "mean", "max", "3" */
  int64_t class_index;
  const char* label;
  int is_signed;
  const char* record; /* JSON, as `visualize` writes it, without files */
} hydrascope_map;

/* "0.1.0" */
HYDRASCOPE_API const char* hydrascope_version(void);

/* The last call of this thread that failed: a code as records have it ("not_found",
   "invalid_argument", ...), the option that it is about ("img_size", or ""), what of it (a value, a
   file, or ""), the sentence with both, and what to do about it (or ""). */
HYDRASCOPE_API const char* hydrascope_error_code(void);
HYDRASCOPE_API const char* hydrascope_error_field(void);
HYDRASCOPE_API const char* hydrascope_error_subject(void);
HYDRASCOPE_API const char* hydrascope_error_text(void);
HYDRASCOPE_API const char* hydrascope_error_hint(void);

/* How texts of this process name options: "--img-size", as at first, or "img_size". */
enum { HYDRASCOPE_FLAGS = 0, HYDRASCOPE_NAMES = 1 };
HYDRASCOPE_API void hydrascope_name_options(int as);

/* `words` are options of `classify`, and of `visualize` where `wants` has HYDRASCOPE_MAPS: those that
   say which model, how pictures are prepared, how it runs and which maps. Null where it failed. */
HYDRASCOPE_API hydrascope_model* hydrascope_open(const char* const* words, size_t num_words,
                                                 unsigned wants);
/* Waits for what has been asked. */
HYDRASCOPE_API void hydrascope_close(hydrascope_model* model);
/* JSON: name, num_classes, embed_dim, patch_size, attention, device, precision, transform, maps,
   notes. */
HYDRASCOPE_API const char* hydrascope_facts(const hydrascope_model* model);
/* JSON: the notes that the command line would have printed by now, the notes of `facts` and what came to
   them while pictures were computed. Lives until this thread's next call. */
HYDRASCOPE_API const char* hydrascope_notes(const hydrascope_model* model);
/* How far the work at hand is, from any thread: the layers of the model that a batch has passed, then the layers
   that the maps of a picture have been through. `all` has their number, 0 while nothing is computed. -1: it failed. */
HYDRASCOPE_API int64_t hydrascope_layers_done(const hydrascope_model* model, int64_t* all);
/* Of a class from 0 on; null where there is none. */
HYDRASCOPE_API const char* hydrascope_label(const hydrascope_model* model, int64_t index);

/* Fills `answers` (`num_pictures` of them, to be freed one by one) in the order of `pictures`, and
   returns 0. A picture that failed has an answer that says so. `words` may be --topk of `classify`,
   or with HYDRASCOPE_MAPS --method, --layer, --head, --class and --topk of `visualize`: a part of
   the maps that the model was opened for, all of them by default. Not 0: the question was wrong, and
   there are no answers. */
HYDRASCOPE_API int hydrascope_ask(hydrascope_model* model, const hydrascope_picture* pictures,
                                  size_t num_pictures, const char* const* words, size_t num_words,
                                  unsigned wants, hydrascope_answer** answers);
HYDRASCOPE_API void hydrascope_free(hydrascope_answer* answer);

/* The picture with maps of its answer over it, as `visualize` draws them: RGB, (height, width, 3), which
   lives until this thread's next drawing. `maps` are places in `hydrascope_answer_maps`; none: the picture
   as it is. `words` may be the options of `visualize` about drawing and the key label-type. Null where it
   failed. */
HYDRASCOPE_API const uint8_t* hydrascope_draw(const hydrascope_answer* answer, const size_t* maps,
                                              size_t num_maps, const hydrascope_picture* picture,
                                              const char* const* words, size_t num_words,
                                              int64_t* height, int64_t* width);

/* Facts that need no model, as JSON that lives until this thread's next question. Null where it failed. */

/* {"mechanisms", "position_rules", "config", "samples"}: lists of what `models info NAME --format json`
   prints, the usual configuration of a transformer, and the files of the bundled photographs. */
HYDRASCOPE_API const char* hydrascope_registry(void);
/* Layers after --attn and --set attn-opt= among `words`: `before` is a list of {"mechanism", "options"} or of
   names, one per layer, and so is the answer, with all options. */
HYDRASCOPE_API const char* hydrascope_layers(const char* before, const char* const* words,
                                             size_t num_words);
/* A checkpoint's configuration, with all fields; num_classes is 0 where it has no classifier. */
HYDRASCOPE_API const char* hydrascope_config(const char* file);
/* The pictures that `word` names as an input of `classify`: `count` paths, which live until this thread's
   next question. A folder, a pattern and a list name several; any other word names itself. Null where it
   failed, as for a folder without pictures. */
HYDRASCOPE_API const char* const* hydrascope_pictures(const char* word, size_t* count);

/* Null where all went well. */
HYDRASCOPE_API const char* hydrascope_answer_error_code(const hydrascope_answer* answer);
HYDRASCOPE_API const char* hydrascope_answer_error_text(const hydrascope_answer* answer);
/* JSON, as `classify` writes it, with `notes` where there are some on the answer. */
HYDRASCOPE_API const char* hydrascope_answer_record(const hydrascope_answer* answer);
/* These write how many there are to `count`. */
HYDRASCOPE_API const hydrascope_prediction* hydrascope_answer_top(const hydrascope_answer* answer,
                                                                  size_t* count);
HYDRASCOPE_API const float* hydrascope_answer_logits(const hydrascope_answer* answer,
                                                     size_t* count);
HYDRASCOPE_API const float* hydrascope_answer_embedding(const hydrascope_answer* answer,
                                                        size_t* count);
HYDRASCOPE_API const hydrascope_map* hydrascope_answer_maps(const hydrascope_answer* answer,
                                                            size_t* count);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && !defined(HYDRASCOPE_WITHOUT_CLASSES)

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope {

/* code(): "not_found", "invalid_argument", ...; field(): the option that it is about, or ""; subject(): what of it;
   hint(): what to do */
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& text, std::string field = {}, std::string subject = {},
        std::string hint = {})
      : std::runtime_error(text),
        code_(std::move(code)),
        field_(std::move(field)),
        subject_(std::move(subject)),
        hint_(std::move(hint)) {}
  const std::string& code() const noexcept { return code_; }
  const std::string& field() const noexcept { return field_; }
  const std::string& subject() const noexcept { return subject_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string code_;
  std::string field_;
  std::string subject_;
  std::string hint_;
};

/* What became of one picture. */
class Answer {
 public:
  explicit Answer(hydrascope_answer* answer) : answer_(answer, hydrascope_free) {}

  bool failed() const { return hydrascope_answer_error_code(answer_.get()) != nullptr; }
  /* Throws Error where the picture failed. */
  const Answer& value() const {
    if (failed())
      throw Error(hydrascope_answer_error_code(answer_.get()),
                  hydrascope_answer_error_text(answer_.get()));
    return *this;
  }
  std::string record() const { return hydrascope_answer_record(answer_.get()); }
  std::vector<hydrascope_prediction> top() const { return list(hydrascope_answer_top); }
  std::vector<hydrascope_map> maps() const { return list(hydrascope_answer_maps); }
  std::vector<float> logits() const { return list(hydrascope_answer_logits); }
  std::vector<float> embedding() const { return list(hydrascope_answer_embedding); }

 private:
  template <class Item>
  std::vector<Item> list(const Item* (*get)(const hydrascope_answer*, size_t*)) const {
    size_t count = 0;
    const Item* items = get(answer_.get(), &count);
    return count == 0 ? std::vector<Item>() : std::vector<Item>(items, items + count);
  }
  std::unique_ptr<hydrascope_answer, void (*)(hydrascope_answer*)> answer_;
};

inline hydrascope_picture picture_in_file(const char* path) {
  hydrascope_picture picture = {};
  picture.path = path;
  return picture;
}
inline hydrascope_picture picture_in_memory(const void* bytes, size_t num_bytes) {
  hydrascope_picture picture = {};
  picture.bytes = bytes;
  picture.num_bytes = num_bytes;
  return picture;
}
inline hydrascope_picture picture_of_pixels(const uint8_t* rgb, int64_t height, int64_t width,
                                            int64_t row_stride = 0) {
  hydrascope_picture picture = {};
  picture.pixels = rgb;
  picture.height = height;
  picture.width = width;
  picture.row_stride = row_stride;
  return picture;
}

class Model {
 public:
  explicit Model(const std::vector<std::string>& options = {}, unsigned wants = 0)
      : model_(open(pointers(options), wants), hydrascope_close) {
    if (model_ == nullptr) throw_last();
  }

  std::string facts() const { return hydrascope_facts(model_.get()); }
  std::vector<Answer> ask(const std::vector<hydrascope_picture>& pictures,
                          const std::vector<std::string>& options = {}, unsigned wants = 0) const {
    const std::vector<const char*> words = pointers(options);
    std::vector<hydrascope_answer*> answers(pictures.size());
    if (hydrascope_ask(model_.get(), pictures.data(), pictures.size(), words.data(), words.size(),
                       wants, answers.data()) != 0)
      throw_last();
    std::vector<Answer> owned;
    owned.reserve(answers.size());
    for (hydrascope_answer* answer : answers) owned.emplace_back(answer);
    return owned;
  }

 private:
  static hydrascope_model* open(const std::vector<const char*>& words, unsigned wants) {
    return hydrascope_open(words.data(), words.size(), wants);
  }
  static std::vector<const char*> pointers(const std::vector<std::string>& words) {
    std::vector<const char*> all;
    for (const std::string& word : words) all.push_back(word.c_str());
    return all;
  }
  [[noreturn]] static void throw_last() {
    throw Error(hydrascope_error_code(), hydrascope_error_text(), hydrascope_error_field(),
                hydrascope_error_subject(), hydrascope_error_hint());
  }
  std::unique_ptr<hydrascope_model, void (*)(hydrascope_model*)> model_;
};

}  // namespace hydrascope

#endif
#endif
