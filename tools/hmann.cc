#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "tools/commands.h"

namespace hmann {
namespace {

constexpr Command kCommands[] = {
    {"data", "Data sets: list, fetch, generate, convert, exact neighbours", "hmann data info datasets/sample/base.u8bin", SetupData},
    {"build", "Build an index from a vector file", "hmann build --base datasets/sample/base.u8bin --out sample.hmann", SetupBuild},
    {"promote", "Upper layers and sketches anew on a finished L0, for other fast memory",
     "hmann promote sample.hmann --promote 0.1 --out promoted.hmann", SetupPromote},
    {"profile", "What this machine can do: memory, device, kernels; for `plan` and `tune`", "hmann profile --out build/device.json",
     SetupProfile},
    {"plan", "What to keep in so much fast memory, and what building it takes",
     "hmann plan --rows 1000000000 --dim 128 --dtype u8 --fast-memory 96GiB --explain", SetupPlan},
    {"tune", "The dials that reach a recall or keep a time, found by model and measurement, stored beside the index",
     "hmann tune sample.hmann --queries datasets/sample/query.u8bin --groundtruth datasets/sample/query.gt100", SetupTune},
    {"info", "What an index holds, and its bytes beside the formulas", "hmann info sample.hmann", SetupInfo},
    {"verify", "Check every checksum and invariant of an index", "hmann verify sample.hmann", SetupVerify},
    {"search", "Search an index in this process",
     "hmann search sample.hmann --queries datasets/sample/query.u8bin --groundtruth datasets/sample/query.gt100", SetupSearch},
    {"serve", "Serve indexes over gRPC", "hmann serve --index sample=sample.hmann --listen 127.0.0.1:50051", SetupServe},
    {"query", "Search an index through a server",
     "hmann query --server 127.0.0.1:50051 --index sample --queries datasets/sample/query.u8bin", SetupQuery},
    {"eval", "Measure: recall against latency, beside the baselines",
     "hmann eval sweep --base datasets/sample/base.u8bin --queries datasets/sample/query.u8bin --groundtruth datasets/sample/query.gt100 "
     "--out build/sweep",
     SetupEval},
    {"completion", "Print a shell completion script", "source <(hmann completion bash)", SetupCompletion},
    {"man", "Write the manual pages", "hmann man --out build/man1", SetupMan},
};

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

/// Says what may have been meant by a command that does not exist; 2 for main to return.
int UnknownCommand(std::string_view found) {
  std::string_view nearest;
  std::size_t best = 3;
  for (const Command& command : kCommands) {
    const std::size_t distance = EditDistance(found, command.name);
    if (distance < best) {
      best = distance;
      nearest = command.name;
    }
  }
  std::cerr << "hmann: no command '" << found << "'";
  if (!nearest.empty()) std::cerr << "; did you mean '" << nearest << "'?";
  std::cerr << "\n`hmann --help` lists the commands.\n";
  return 2;
}

bool Exists(std::string_view name) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](const Command& command) { return name == command.name; });
}

/// 0 done, 1 the work failed, 2 wrong usage.
int Run(int argc, char** argv) {
  CLI::App app("hmann: search among billions of vectors in two-tier memory (HM-ANN)", "hmann");
  app.set_version_flag("-V,--version", "hmann " HMANN_VERSION);
  app.require_subcommand(0, 1);
  app.footer("`hmann COMMAND --help` says more, with an example.");
  std::vector<CommandAction> actions;
  std::vector<CLI::App*> commands;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(absl::StrCat("Example:\n  ", command.example));
    commands.push_back(sub);
    actions.push_back(command.setup(*sub));
  }

  if (argc > 1 && argv[1][0] != '-' && !Exists(argv[1])) return UnknownCommand(argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  }

  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]->parsed()) continue;
    const absl::Status status = actions[i]();
    if (status.ok()) return 0;
    std::cerr << "hmann " << kCommands[i].name << ": " << std::string(status.message()) << '\n';
    return 1;
  }
  std::cerr << app.help();
  return 2;
}

}  // namespace
}  // namespace hmann

int main(int argc, char** argv) {
  try {
    // A full disk under a size limit is an error to report (EFBIG), not a signal to die of.
    std::signal(SIGXFSZ, SIG_IGN);
    return hmann::Run(argc, argv);
  } catch (const std::exception& error) {  // of libraries; our code throws nothing
    std::cerr << "hmann: " << error.what() << '\n';
    return 1;
  }
}
