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
#include <optional>

namespace hydrascope::app {

int write_records(Session& session, const PicturesRequest& request, const RecordRun& run) {
  const auto& [file, format] = request.output;
  const bool is_page = format == Format::html;
  OutputFile output(is_page ? "" : file, "`output`",
                    run.resumes ? OutputFile::Start::after_whole_lines : OutputFile::Start::anew);
  std::optional<ResumedRecords> earlier;
  if (run.resumes && output.part().empty())
    throw UsageError("a device or a pipe holds no records", "`resume`", "`output` FILE.jsonl");
  if (run.resumes) earlier.emplace(output.part());
  if (earlier) output.cut(earlier->bytes());
  std::optional<RecordStream> records;
  if (!is_page) records.emplace(format, output.stream(), run.columns, run.each);

  const Console& console = request.console;
  std::int64_t failed = earlier ? earlier->num_failed() : 0;
  InputStream inputs(request.words, request.recursive);
  const auto next_input = [&] {
    std::optional<Input> input = inputs.next();
    while (input && earlier && earlier->answers(*input)) input = inputs.next();
    return input;
  };
  Progress progress(run.command, std::nullopt, console.progress);
  session.hide_for_notes(progress);
  if (earlier && earlier->num_inputs() > 0) {
    console.note(std::to_string(earlier->num_inputs()) + " inputs have their records");
    progress.advance(earlier->num_inputs());
  }
  InputCount count(request.words, request.recursive, progress);
  const PipelineTiming timing = session.run(next_input, [&](PipelineResult& result) {
    if (result.frame == 0) count.add_video(result.video);
    const auto [json, text] = run.record(result);
    progress.hide();
    if (records) records->write(json, text);
    if (result.error) {
      const Error error(*result.error, result.message, result.input.given);
      print_failure(error, is_page ? "error: " + error_text(error) : "");
      ++failed;
    }
    progress.advance();
    count.begin();
    return !(result.error && request.run.fail_fast) && static_cast<bool>(output.stream());
  });
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  if (records) records->finish();
  output.close();
  session.describe(timing);
  int code = kExitOk;
  if (failed > 0) code = request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return exit_code_after_stop(code);
}

}  // namespace hydrascope::app
