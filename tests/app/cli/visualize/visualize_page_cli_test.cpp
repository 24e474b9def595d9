// `hydrascope visualize --html`, also of two models.
#include "tests/app/cli/visualize/visualize_cli.h"

namespace hydrascope::testing {
namespace visualize_page_cli_test {

using Json = nlohmann::json;

class VisualizePageCliTest : public VisualizeCliTest {};

TEST_F(VisualizePageCliTest, OnePageOfAllPictures) {
  picture("a.ppm", 64, 64);
  picture("b.ppm", 48, 64, 3);
  const Outcome outcome =
      visualize({"a.ppm missing.jpg b.ppm --html page.html --layer 0,11 --cmap viridis"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::string page = read_bytes(path("page.html"));
  for (const char* text : {"a.ppm", "missing.jpg", "b.ppm", "viridis", "<html"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST_F(VisualizePageCliTest, ThePageStartsAsTheHeatmapsAreDrawn) {
  picture("a.ppm", 64, 64);
  const auto page_of = [&](Words arguments) {
    arguments = Words{"a.ppm --method hydra --html page.html"} + arguments;
    EXPECT_EQ(visualize(arguments).code, 0);
    return read_bytes(path("page.html"));
  };
  const std::string usual = page_of({});
  for (const char* text : {R"("sign":"positive")", R"("mass":0.0)", R"("colormap":"inferno")",
                           R"("signedColormap":"blue-orange")", R"("outlierPercent":30.0)",
                           R"("opacity":0.8)", R"("fade":true)"})
    EXPECT_NE(usual.find(text), std::string::npos) << text;
  const std::string other = page_of(
      {"--sign both --threshold 0.5 --cmap blue-orange --outlier-perc 2 --no-fade --alpha 0.25 "
       "--beside"});
  for (const char* text : {R"("sign":"both")", R"("mass":0.5)", R"("colormap":"blue-orange")",
                           R"("signedColormap":"blue-orange")", R"("outlierPercent":2.0)",
                           R"("opacity":0.25)", R"("fade":false)", R"("split":0.5)"})
    EXPECT_NE(other.find(text), std::string::npos) << text;
  // What speaks for the class begins at 0; signed heat in blue and orange has a range about 0.
  const std::string range = R"("range":{"low":)";
  ASSERT_NE(usual.find(range), std::string::npos);
  EXPECT_NE(usual[usual.find(range) + range.size()], '-');
  ASSERT_NE(other.find(range), std::string::npos);
  EXPECT_EQ(other[other.find(range) + range.size()], '-');
}

/// What the page says of its first picture's models.
Json models_of(const std::string& page) {
  const std::string open = R"(class="data">)";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin)).at("models");
}

TEST_F(VisualizePageCliTest, TwoModelsOnOnePage) {
  picture("a.ppm", 96, 64);
  const std::vector<Json> records_of_one = records(
      {"a.ppm --html page.html --topk 2 --method hydra,attention --attn hydra:last2 --layer 9"
       " --against-attn softmax --img-size 64"});
  EXPECT_EQ(records_of_one.size(), 3U) << "two classes by hydra, one map of attention: the first's";
  const Json models = models_of(read_bytes(path("page.html")));
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[1].at("maps").size(), 3U);
  EXPECT_NE(models[0].at("probabilities"), models[1].at("probabilities"));
  for (const Json& model : models) {
    const Json& hydra = model.at("maps")[0];
    EXPECT_EQ(hydra.at("additive"), true);
    EXPECT_TRUE(hydra.at("total").is_number());
    const Json& attention = model.at("maps")[2];
    EXPECT_EQ(attention.at("additive"), false);
    EXPECT_NEAR(attention.at("total").get<double>(), 1, 1e-4) << "a row of softmax";
  }
  // What the other model lacks is left out, and said.
  const Outcome mixed =
      run({"visualize a.ppm --html page.html --method hydra,attention --img-size 64"
           " --against-attn hydra --device cpu --no-progress"},
          {"", folder_.path(), {}});
  EXPECT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_NE(mixed.err.find("--against: attention left out"), std::string::npos) << mixed.err;
  const std::string page = read_bytes(path("page.html"));
  EXPECT_EQ(models_of(page)[1].at("maps").size(), 1U);
  EXPECT_NE(page.find("deit_tiny_patch16_224.softmax, hydra"), std::string::npos)
      << "one file: attention names the models";
  const Outcome nowhere = visualize({"a.ppm --against-attn hydra"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.err.find("--html"), std::string::npos) << nowhere.err;
}

}  // namespace visualize_page_cli_test
}  // namespace hydrascope::testing
