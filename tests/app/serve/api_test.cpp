#include "app/serve/api.h"

#include "app/command.h"
#include "app/http/metrics.h"
#include "app/run/console.h"
#include "kernels/error.h"
#include "tests/picture_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

using namespace std::chrono_literals;

template <class Value>
bool is_there(const std::future<Value>& future, std::chrono::milliseconds within = 60s) {
  return future.wait_for(within) == std::future_status::ready;
}

/// A shelf whose models are all the same tiny one. "slow" opens, "broken" fails and "busy" answers when the gate opens.
class ModelShelfTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Service> tiny(std::function<void(std::int64_t, double)> batch_done = {}) {
    const std::vector<std::string> words{
        "-m", HYDRASCOPE_SOURCE_DIR "/tests/corpus/states/0.1/tiny", "--device", "cpu"};
    ServiceRequest request = service_request(parse(classify_spec(), words), false);
    request.console = Console{.quiet = true, .progress = false};
    request.batch_done = std::move(batch_done);
    return std::make_unique<Service>(std::move(request));
  }
  std::unique_ptr<ModelShelf> shelf(std::size_t most) {
    const auto open = [this](const ServedWords& words) {
      const bool is_first = ++openings_[words.model] == 1;
      if (words.model == "busy") return tiny([this](std::int64_t, double) { is_open_.wait(); });
      if (words.model == "slow" || words.model == "broken") is_open_.wait();
      if (words.model == "broken" && is_first) throw Error(ErrorCode::not_found, "it is not there");
      return tiny();
    };
    return std::make_unique<ModelShelf>(
        tiny(), ServedWords{"own", "whole"},
        std::vector<std::string>{"own", "quick", "slow", "broken", "busy"},
        std::vector<std::string>{"whole"}, open, most);
  }
  /// "answered", or why not.
  static std::future<std::string> ask(ModelShelf& shelf, const std::string& model) {
    const auto said = std::make_shared<std::promise<std::string>>();
    const auto use = [said](Service& service) {
      static const std::string kPicture = hydrascope::testing::ppm(20, 20);
      Question question{.name = "picture"};
      question.picture = PictureInMemory{.encoded = std::as_bytes(std::span(kPicture))};
      service.ask(std::move(question), [said](const Answer& answer) {
        said->set_value(answer.record.error ? answer.record.message : "answered");
      });
    };
    shelf.with({.model = model}, use,
               [said](const std::exception_ptr& why) { said->set_value(as_error(why).what()); });
    return said->get_future();
  }
  static std::string said(std::future<std::string> answer) {
    return is_there(answer) ? answer.get() : "nothing";
  }

  std::promise<void> gate_;
  std::shared_future<void> is_open_ = gate_.get_future().share();
  std::map<std::string, int> openings_;  // of the thread that opens
};

TEST_F(ModelShelfTest, OpenModelsAnswerWhileAnotherIsOpened) {
  const auto shelf_of_four = shelf(4);
  ModelShelf& models = *shelf_of_four;
  EXPECT_EQ(said(ask(models, "quick")), "answered");
  // As many as there are threads for answers, and one more.
  std::vector<std::future<std::string>> slow;
  for (int i = 0; i < 3; ++i) slow.push_back(ask(models, "slow"));
  EXPECT_EQ(said(ask(models, "quick")), "answered");
  EXPECT_EQ(said(ask(models, "own")), "answered");
  EXPECT_EQ(said(ask(models, "")), "answered");
  EXPECT_NE(said(ask(models, "unknown")).find("expected one of own, quick"), std::string::npos);
  for (const auto& one : slow) EXPECT_FALSE(is_there(one, 0ms));
  gate_.set_value();
  for (auto& one : slow) EXPECT_EQ(said(std::move(one)), "answered");
  EXPECT_EQ(said(ask(models, "slow")), "answered");
  models.close();
  EXPECT_EQ(openings_, (std::map<std::string, int>{{"quick", 1}, {"slow", 1}}));
}

TEST_F(ModelShelfTest, AFailedOpeningIsToldToAllWhoWaitAndTriedAgain) {
  const auto models = shelf(4);
  auto first = ask(*models, "broken");
  auto second = ask(*models, "broken");
  gate_.set_value();
  EXPECT_EQ(said(std::move(first)), "it is not there");
  EXPECT_EQ(said(std::move(second)), "it is not there");
  EXPECT_EQ(said(ask(*models, "broken")), "answered");
  EXPECT_EQ(said(ask(*models, "broken")), "answered");
  models->close();
  EXPECT_EQ(openings_["broken"], 2);
}

TEST_F(ModelShelfTest, AModelThatIsAtWorkMakesNoRoom) {
  const auto models = shelf(1);
  auto at_work = ask(*models, "busy");
  EXPECT_EQ(said(ask(*models, "quick")), "as many models as may be open are at work");
  gate_.set_value();
  EXPECT_EQ(said(std::move(at_work)), "answered");
  EXPECT_EQ(said(ask(*models, "quick")), "answered");
  EXPECT_EQ(said(ask(*models, "busy")), "answered");
  models->close();
  EXPECT_EQ(openings_, (std::map<std::string, int>{{"busy", 2}, {"quick", 1}}));
}

TEST_F(ModelShelfTest, NothingIsOpenedWhenItCloses) {
  const auto models = shelf(4);
  auto slow = ask(*models, "slow");
  auto behind = ask(*models, "busy");
  std::thread closing([&] { models->close(); });
  while (!is_there(ask(*models, "quick"), 10ms)) continue;
  gate_.set_value();
  closing.join();
  EXPECT_EQ(said(std::move(slow)), "the server is closing");
  EXPECT_EQ(said(std::move(behind)), "the server is closing");
  EXPECT_FALSE(openings_.contains("busy"));
}

/// Answers are finished on threads that no opening takes.
TEST_F(ModelShelfTest, RequestsAreAnsweredWhileAModelIsOpened) {
  ServeMetrics metrics;
  ServeApi api({}, metrics, shelf(4));
  const auto asked = [&](const std::string& model) {
    const auto status = std::make_shared<std::promise<int>>();
    HttpRequest request{"POST", "/v1/classify", {{"model", model}}};
    request.body = hydrascope::testing::ppm(20, 20);
    api.answer(std::move(request),
               [status](const HttpResponse& response) { status->set_value(response.status); });
    return status->get_future();
  };
  std::vector<std::future<int>> slow;
  for (const char* model : {"slow", "slow", "broken", "broken"}) slow.push_back(asked(model));
  auto own = asked("own");
  EXPECT_TRUE(is_there(own) && own.get() == 200);
  for (const auto& one : slow) EXPECT_FALSE(is_there(one, 0ms));
  gate_.set_value();
  for (const int status : {200, 200, 404, 404}) {
    EXPECT_TRUE(is_there(slow.front()) && slow.front().get() == status);
    slow.erase(slow.begin());
  }
}

TEST(ServeApi, BodiesHoldNoMoreBytesThanTheyMay) {
  ServeMetrics metrics;
  ApiOptions options;
  options.most_bytes = 100;
  ServeApi api(options, metrics, nullptr);
  EXPECT_FALSE(api.hold(60));
  const std::optional<HttpResponse> refusal = api.hold(41);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 503);
  EXPECT_NE(refusal->body.find("busy"), std::string::npos);
  EXPECT_FALSE(api.hold(40)) << "what was refused does not count";
  EXPECT_TRUE(api.hold(1));
  api.release(60);
  EXPECT_FALSE(api.hold(60));
}

TEST(ServeApi, RefusesBeforeTheBodyComes) {
  ServeMetrics metrics;
  ServeApi api({}, metrics, nullptr);
  const auto status = [&](const std::string& method, const std::string& path,
                          std::vector<std::pair<std::string, std::string>> query = {}) {
    const auto refusal = api.admit({method, path, std::move(query)}, /*has_body=*/true);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status("POST", "/v1/classify"), 200);
  EXPECT_EQ(status("POST", "/v1/nothing"), 404);
  EXPECT_EQ(status("GET", "/v1/classify"), 405);
  EXPECT_EQ(status("GET", "/healthz"), 413);
  EXPECT_EQ(status("POST", "/v1/explain", {{"topk", "20"}}), 200);
  EXPECT_EQ(status("POST", "/v1/explain", {{"topk", "20"}, {"class", "1"}}), 400);
  EXPECT_EQ(status("POST", "/v1/explain", {{"patch", "0,0"}, {"layer", "0"}}), 200);
  EXPECT_EQ(status("POST", "/v1/explain", {{"patch", "0,0"}, {"layer", "0"}, {"head", "1"}}), 400);
}

}  // namespace
}  // namespace hydrascope::app
