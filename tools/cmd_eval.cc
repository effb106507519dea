#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "eval/own_contestants.h"
#include "eval/results.h"
#include "eval/sweep.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/format/info.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann {
namespace {

/// Options that both commands have, as parsed.
struct Flags {
  SweepOptions sweep;
  std::vector<std::string> settings;        ///< NAME=JSON
  std::vector<std::string> build_settings;  ///< NAME=JSON
  bool json = false;
};

struct SweepFlags : Flags {
  std::vector<std::string> contestants, adapters;
  double promote = 0.16;
  std::string promotion = "degree";
  std::uint64_t seed = 1;
};

struct PromotionFlags : Flags {
  std::vector<double> shares = {0.10, 0.16};
  std::vector<std::string> orders = {"degree", "random"};
};

std::string CheckShare(const std::string& text) {
  double share = 0;
  return CLI::detail::lexical_cast(text, share) && share > 0 && share < 1 ? std::string() : "expected a share between 0 and 1";
}

std::string CheckOrder(const std::string& text) {
  const absl::StatusOr<PromotionOrder> order = ParsePromotionOrder(text);
  return order.ok() ? std::string() : std::string(order.status().message());
}

void AddDataOptions(CLI::App& app, Flags* flags) {
  ContestantJob* job = &flags->sweep.job;
  app.add_option("--base", job->base, "vectors to index, any format that `hmann build` takes")->required();
  app.add_option("--queries", job->queries, "vectors to look for")->required();
  app.add_option("--groundtruth", flags->sweep.groundtruth, "their exact neighbours (default: computed once, kept in --out)");
  app.add_option("--rows", job->rows, "first vectors of --base only (0: all)");
  app.add_option("--query-rows", job->query_rows, "first vectors of --queries only (0: all)");
  AddParsed<Metric>(
      app, "--metric", ParseMetric, [job](Metric metric) { job->metric = metric; }, "l2 (default), ip, cosine");
}

void AddSharedOptions(CLI::App& app, Flags* flags) {
  AddDataOptions(app, flags);
  SweepOptions* sweep = &flags->sweep;
  ContestantJob* job = &sweep->job;
  job->threads = UsableCores();
  app.add_option("--m", job->m, "M of every graph")->check(CLI::Range(2, 512))->capture_default_str();
  app.add_option("--ef-construction", job->ef_construction, "beam width of every build")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--k", job->k, "neighbours a query")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--threads", job->threads, "of the builds (default: all usable cores); every search has one")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", sweep->rounds, "times that every setting is run")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--targets", sweep->targets, "recalls to compare at")
      ->delimiter(',')
      ->check(CLI::Range(0.0001, 1.0))
      ->capture_default_str();
  app.add_option("--out", job->folder, "folder of results.jsonl, report.html, logs and built indexes")->required();
  app.add_option("--work", job->work, "folder of built indexes (default: work in --out)");
  app.add_option_function<std::string>(
         "--clock", [sweep](const std::string& clock) { sweep->clock = clock == "cpu" ? RunClock::kCpu : RunClock::kWall; },
         "what QPS is made of: wall (default), or cpu: CPU time of the search thread, for a machine that is not quiet")
      ->check(CLI::IsMember({"wall", "cpu"}));
  app.add_option("--settings", flags->settings, "NAME=JSON: an array of search settings instead of a contestant's own");
  app.add_option("--build-settings", flags->build_settings, "NAME=JSON: an object of build settings of a contestant's own");
  const auto add_timeout = [&app](const char* name, std::chrono::milliseconds* timeout, const char* description) {
    AddParsed<std::chrono::nanoseconds>(
        app, name, ParseDuration,
        [timeout](std::chrono::nanoseconds time) { *timeout = std::chrono::ceil<std::chrono::milliseconds>(time); }, description);
  };
  job->run_timeout = std::chrono::minutes(10);
  add_timeout("--timeout", &job->run_timeout, "longest run over all queries, as 90s (default 600s; 0s: none)");
  add_timeout("--build-timeout", &job->build_timeout, "longest build (default: none)");
  app.add_flag("--json", flags->json, "the figures as one JSON object on stdout");
}

/// "NAME=JSON" given to the contestant of that name. `store` gets the value; `what` is the kind of JSON that is expected.
absl::Status GiveSettings(const std::vector<std::string>& texts, const char* option, Json::value_t expected,
                          std::vector<ContestantSpec>* specs, void (*store)(ContestantSpec* spec, Json value)) {
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    Json value = Json::parse(text.substr(std::min(equals + 1, text.size())), nullptr, false);
    if (value.type() != expected) return absl::InvalidArgumentError(absl::StrCat(option, ": expected NAME=JSON, found '", text, "'"));
    const auto spec = std::find_if(specs->begin(), specs->end(), [&](const ContestantSpec& s) { return s.name == name; });
    if (spec == specs->end()) return absl::InvalidArgumentError(absl::StrCat(option, ": no contestant '", name, "' takes part"));
    store(&*spec, std::move(value));
  }
  return absl::OkStatus();
}

/// Runs the sweep and fills in what the command line leaves to it.
absl::StatusOr<SweepResult> Run(Flags& flags) {
  SweepOptions& sweep = flags.sweep;
  HMANN_RETURN_IF_ERROR(GiveSettings(flags.settings, "--settings", Json::value_t::array, &sweep.contestants,
                                     [](ContestantSpec* spec, Json value) { spec->settings = std::move(value); }));
  HMANN_RETURN_IF_ERROR(GiveSettings(flags.build_settings, "--build-settings", Json::value_t::object, &sweep.contestants,
                                     [](ContestantSpec* spec, Json value) { spec->build.update(value); }));
  if (sweep.job.work.empty()) sweep.job.work = absl::StrCat(sweep.job.folder, "/work");
  sweep.job.cancelled = CancelOnInterrupt();
  Progress progress;
  return RunSweep(sweep, progress, [](const std::string& line) { std::cerr << line << '\n'; });
}

absl::Status Tell(const Flags& flags, const Json& figures) {
  const std::string& out = flags.sweep.job.folder;
  HMANN_RETURN_IF_ERROR(WriteReport(figures, absl::StrCat(out, "/report.html")));
  std::cerr << out << "/results.jsonl: every run\n" << out << "/report.html: the same to look at\n";
  return flags.json ? PrintJson(figures) : absl::OkStatus();
}

absl::Status RunSweepCommand(SweepFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  if (flags.contestants.empty()) {
    HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(sweep.job.base, sweep.job.rows));
    flags.contestants = OwnContestantNames(base.dtype(), sweep.job.metric);
  }
  const Json build = {{"promote", flags.promote}, {"promotion", flags.promotion}, {"seed", flags.seed}};
  for (const std::string& name : flags.contestants) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant(name, build));
    sweep.contestants.push_back(std::move(spec));
  }
  for (const std::string& text : flags.adapters) {
    HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, ForeignContestant(text));
    sweep.contestants.push_back(std::move(spec));
  }
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, Run(flags));
  const Json figures = ToJson(result);
  PrintSweepTable(figures, std::cerr);
  return Tell(flags, figures);
}

absl::Status RunPromotionCommand(PromotionFlags& flags) {
  SweepOptions& sweep = flags.sweep;
  for (const double share : flags.shares) {
    for (const std::string& order : flags.orders) {
      HMANN_ASSIGN_OR_RETURN(ContestantSpec spec, OwnContestant("hmann", {{"promote", share}, {"promotion", order}}));
      spec.name = absl::StrFormat("%s %.2f", order, share);
      sweep.contestants.push_back(std::move(spec));
    }
  }
  sweep.reference = sweep.contestants.back().name;
  HMANN_ASSIGN_OR_RETURN(const SweepResult result, Run(flags));
  Json figures = ToJson(result);
  figures["title"] = "Who is promoted";
  figures["promotion"] = ComparePromotion(result);
  PrintSweepTable(figures, std::cerr);
  PrintPromotionTable(figures["promotion"], std::cerr);
  return Tell(flags, figures);
}

}  // namespace

CommandAction SetupEval(CLI::App& app) {
  app.require_subcommand(1);
  auto sweep = std::make_shared<SweepFlags>();
  CLI::App* sweep_app =
      app.add_subcommand("sweep", "Recall against speed, beside hnswlib, Faiss and whoever speaks eval/adapters/PROTOCOL.md");
  AddSharedOptions(*sweep_app, sweep.get());
  sweep_app
      ->add_option("--contestants", sweep->contestants, "some of hmann,hmann-aa,hnswlib,hnswlib-u8,faiss (default: all that can take part)")
      ->delimiter(',');
  sweep_app->add_option("--adapter", sweep->adapters, "NAME=COMMAND: one more contestant, a program that speaks the protocol");
  sweep_app->add_option("--reference", sweep->sweep.reference, "contestant that ratios are to")->capture_default_str();
  sweep_app->add_option("--promote", sweep->promote, "hmann's share of vectors in fast memory, N_1 / N")
      ->check(CheckShare)
      ->capture_default_str();
  sweep_app->add_option("--promotion", sweep->promotion, "who is promoted first, by: degree, in, out, random")
      ->check(CheckOrder)
      ->capture_default_str();
  sweep_app->add_option("--seed", sweep->seed, "of hmann's build")->capture_default_str();
  sweep_app->footer(
      "Example:\n  hmann eval sweep --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth "
      "datasets/sample/query.gt100 --out build/sweep");

  auto promotion = std::make_shared<PromotionFlags>();
  CLI::App* promotion_app = app.add_subcommand("promotion", "Promotion orders at equal N_1: slow reads and speed at equal recall, by walk");
  AddSharedOptions(*promotion_app, promotion.get());
  promotion_app->add_option("--promote", promotion->shares, "shares N_1 / N to compare at")
      ->delimiter(',')
      ->check(CheckShare)
      ->capture_default_str();
  promotion_app->add_option("--orders", promotion->orders, "of degree, in, out, random")
      ->delimiter(',')
      ->check(CheckOrder)
      ->capture_default_str();
  promotion->sweep.targets = {0.95, 0.99};
  promotion_app->footer(
      "Example:\n  hmann eval promotion --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --out build/promotion");
  return [sweep, promotion, sweep_app] { return sweep_app->parsed() ? RunSweepCommand(*sweep) : RunPromotionCommand(*promotion); };
}

}  // namespace hmann
