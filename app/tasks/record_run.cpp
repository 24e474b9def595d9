#include "app/tasks/record_run.h"

#include "app/pictures/inputs.h"
#include "app/pictures/resumed_records.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/exit_code.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

int write_records(Session& session, const PicturesRequest& request, const RecordRun& run) {
  const auto& [file, format] = request.output;
  const bool is_page = format == Format::html;
  OutputFile output(is_page ? "" : file, "`output`",
                    run.resumes ? OutputFile::Start::after_whole_lines : OutputFile::Start::anew);
  if (run.resumes && output.part().empty())
    throw UsageError("a device or a pipe holds no records", "`resume`", "`output` FILE.jsonl");
  std::optional<RecordStream> records;
  if (!is_page) records.emplace(format, output.stream(), run.columns, run.each);

  const Console& console = request.console;
  std::int64_t failed = 0;
  InputStream inputs(request.words, request.recursive);
  std::function<std::optional<Input>()> next_input = [&] {
    std::optional<Input> input = inputs.next();
    if (input && run.origin) input->stamp = stamp_of(*input);
    return input;
  };
  Progress progress(run.command, std::nullopt, console.progress);
  session.hide_for_notes(progress);
  InputCount count(inputs, progress);
  std::vector<std::string> names;  // of all inputs, where records are gone on with
  if (run.resumes) {
    constexpr const char* kAnew = "without `resume` the file is written anew";
    const auto require_same = [&](const OrderedJson& record) {
      const std::string origin = record.value("run", *run.origin);  // version 0.1 did not say it
      if (origin != *run.origin)
        throw UsageError("is of another run: " + origin + "; not of " + *run.origin, file, kAnew);
    };
    std::vector<RecordLines> earlier = read_records(output.part(), require_same);
    if (!earlier.empty() && earlier.back().are_of_video) earlier.pop_back();  // it begins anew
    EarlierAnswers answers;
    for (const RecordLines& one : earlier)
      if (!one.have_failed) answers[one.input] = {one.stamp, 0};
    std::vector<Input> left;
    while (std::optional<Input> input = next_input()) {
      names.push_back(input->given);
      if (!find_answer(answers, *input)) left.push_back(std::move(*input));
    }
    if (!stop_requested())
      for (const std::string& note : notes_on(answers, request.words, file, kAnew))
        console.note(note);
    output.cut(earlier.empty() ? 0 : earlier.back().end);
    progress.advance(std::ssize(names) - std::ssize(left));
    next_input = one_by_one(std::move(left));
  }
  const bool says_origin = run.origin && !output.part().empty();
  const PipelineTiming timing = session.run(next_input, [&](PipelineResult& result) {
    if (result.frame == 0) count.add_video(result.video);
    auto [json, text] = run.record(result);
    if (says_origin) json["run"] = *run.origin;
    if (says_origin && result.input.stamp != kNoStamp) json["file"] = result.input.stamp;
    progress.hide();
    if (records) records->write(json, text);
    if (result.error) {
      const Error error(*result.error, result.message, result.input.given);
      print_failure(error, is_page ? "error: " + error_text(error) : "");
      ++failed;
    }
    progress.advance();
    return !(result.error && request.run.fail_fast) && static_cast<bool>(output.stream());
  });
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  if (records) records->finish();
  output.close();
  if (run.resumes && !stop_requested() && !(failed > 0 && request.run.fail_fast))
    sort_records(file, names);
  session.describe(timing);
  int code = kExitOk;
  if (failed > 0) code = request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return exit_code_after_stop(code);
}

}  // namespace hydrascope::app
