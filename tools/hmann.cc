#include "tools/run_commands.h"

namespace hmann::tools {
namespace {

constexpr Command kCommands[] = {
    {"data", "Data sets: list, fetch, generate, convert, exact neighbours",
     "hmann data info datasets/sample/base.u8bin", SetupData},
    {"build", "Build an index from a vector file",
     "hmann build --base datasets/sample/base.u8bin --out sample.hmann", SetupBuild},
    {"build-job", "Some jobs of a stage of a build with --work, wherever it goes on",
     "hmann build --base datasets/sample/base.u8bin --out sample.hmann --build-memory 160MiB "
     "--work "
     "build/work --keep-work && hmann build-job --work build/work --stage l0-final --jobs 0-0",
     SetupBuildJob},
    {"promote", "Upper layers and codes anew on a finished L0, for other fast memory",
     "hmann promote sample.hmann --promote 0.1 --out promoted.hmann", SetupPromote},
    {"profile", "What this machine's memory can do: latency, lines in flight, bandwidth",
     "hmann profile --out build/device.json", SetupProfile},
    {"plan", "What to keep in so much fast memory, and what building it takes",
     "hmann plan --rows 1000000000 --dim 128 --dtype u8 --fast-memory 96GiB --explain", SetupPlan},
    {"tune",
     "The dials that reach a recall or keep a time, found by model and measurement, stored beside "
     "the index",
     "hmann tune sample.hmann --queries datasets/sample/query.u8bin --groundtruth "
     "datasets/sample/query.gt100",
     SetupTune},
    {"info", "What an index holds, and its bytes beside the formulas", "hmann info sample.hmann",
     SetupInfo},
    {"verify", "Check every checksum and invariant of an index", "hmann verify sample.hmann",
     SetupVerify},
    {"search", "Search an index in this process",
     "hmann search sample.hmann --queries datasets/sample/query.u8bin --groundtruth "
     "datasets/sample/query.gt100",
     SetupSearch},
    {"get", "Vectors of an index by their labels", "hmann get sample.hmann --labels 17,3 --json",
     SetupGet},
    {"serve", "Serve indexes over gRPC",
     "hmann serve --index sample=sample.hmann --listen 127.0.0.1:50051", SetupServe},
    {"query", "Search an index through a server",
     "hmann query --server 127.0.0.1:50051 --index sample --queries datasets/sample/query.u8bin",
     SetupQuery},
    EvalRow(SetupEval),
    {"completion", "Print a shell completion script", "source <(hmann completion bash)",
     SetupCompletion},
    {"man", "Write the manual pages", "hmann man --out build/man1", SetupMan},
};

}  // namespace
}  // namespace hmann::tools

int main(int argc, char** argv) {
  return hmann::tools::RunCommands(hmann::tools::kCommands, argc, argv);
}
