#pragma once

namespace hmann::tools {

/// From now on a read of a mapped file that fails (SIGBUS: its device failed, or somebody
/// made it shorter) ends the process with a line on stderr that names the file, and exit
/// code 1, instead of the system's "Bus error". Files under work are left as by kill -9.
void NameFailedReads();

}  // namespace hmann::tools
