// The state of a run for the one that goes on: which run it is of and numbers of its state; a conversion's history.
#include "model/training/distillation/conversion_history.h"
#include "model/training/log/state_fields.h"
#include "tests/fuzz/fuzz.h"

#include <cmath>

namespace training = hydrascope::model::training;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 3);
  const std::string text(parts[0]);
  gives_result([&] {
    training::require_same_run(R"({"seed":42,"lr":0.001,"model":"vit","sizes":[224,384]})", text,
                               "fuzz");
  });
  const hydrascope::checkpoint::Metadata fields{{"number", std::string(parts[1])}};
  gives_result([&] {
    const std::int64_t number = training::integer_field(fields, "number", "fuzz");
    require(std::to_string(number) == parts[1] || parts[1].starts_with("-0") ||
                parts[1].starts_with("0"),
            "an integer is what is written");
  });
  gives_result([&] {
    const double number = training::number_field(fields, "number", "fuzz");
    const double again =
        training::number_field({{"number", training::to_field(number)}}, "number", "fuzz");
    require(again == number || (std::isnan(again) && std::isnan(number)),
            "what is written is read");
  });
  gives_result([&] {
    const auto history = training::history_from_json(parts[2], "fuzz");
    static_cast<void>(history.best_evaluation());
    const std::string json = training::to_json(history);
    require(training::to_json(training::history_from_json(json, "fuzz")) == json,
            "what is written is read");
  });
  return 0;
}
