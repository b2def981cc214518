// SPDX-License-Identifier: Apache-2.0
// The file of a trace: it holds whole lines alone, whatever the disk does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ringtune {

// Rank 0: the path itself; rank 3: "trace.json" becomes "trace.rank3.json".
std::string trace_path_of(const std::string& path, int rank);

class TraceFile {
 public:
  TraceFile() = default;
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Empties an old file. `kConfigError` where it cannot be opened.
  Status open(const std::string& path);
  // Returns 0, or the errno of the failure; a part of these lines that was written is then cut off again.
  int append(std::string_view lines);
  // Returns 0, or the errno of a failure that the system reports only now.
  int close();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;  // size of whole lines
};

}  // namespace ringtune
