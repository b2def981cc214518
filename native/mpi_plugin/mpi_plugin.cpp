// SPDX-License-Identifier: Apache-2.0
// The MPI transport's plugin: the only file that includes mpi.h. Compiled by `python -m ringtune.mpi_plugin` with
// the compiler wrapper of the MPI that it is for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

#include <mpi.h>

#include "transport/mpi/plugin_abi.h"

namespace {

// Transfers are cut into pieces: MPI counts in int, and only a finished piece shows that something moves.
constexpr size_t kPieceBytes = size_t{16} << 20;
constexpr int kTag = 0;
// More than any MPI's MPI_MAX_LIBRARY_VERSION_STRING: the library that answers may be another than mpi.h's.
constexpr size_t kVersionBytes = 16384;

#if defined(OPEN_MPI)
constexpr bool kIsForOpenMpi = true;
#else
constexpr bool kIsForOpenMpi = false;
#endif

struct TextSink {
  char* text;
  size_t bytes;

  int fail(const std::string& sentence) const {
    std::snprintf(text, bytes, "%s", sentence.c_str());
    return 1;
  }
};

// The library's name for itself. Its text goes on with date and options of the build, which are cut off.
std::string library_name() {
  char version[kVersionBytes] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  return std::string(version).substr(0, std::strcspn(version, ",\n"));
}

std::string describe(const char* call, int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) {
    return std::string(call) + " failed with error " + std::to_string(error);
  }
  return std::string(call) + " failed: " + std::string(text, static_cast<size_t>(length));
}

bool is_finalized() {
  int flag = 0;
  return MPI_Finalized(&flag) != MPI_SUCCESS || flag != 0;
}

int check_library(const TextSink& sink) {
  const std::string library = library_name();
  int is_initialized = 0;
  int level = MPI_THREAD_SINGLE;
  if ((library.find("Open MPI") != std::string::npos) != kIsForOpenMpi) {
    return sink.fail("was compiled for " + std::string(kIsForOpenMpi ? "Open MPI" : "an MPI of MPICH's kind") +
                     ", but this process runs " + library);
  }
  if (MPI_Initialized(&is_initialized) != MPI_SUCCESS || is_initialized == 0) {
    return sink.fail("uses " + library + ", which is not initialised: this process runs another MPI");
  }
  if (is_finalized()) {
    return sink.fail("cannot be used after MPI_Finalize (" + library + ")");
  }
  if (MPI_Query_thread(&level) != MPI_SUCCESS || level != MPI_THREAD_MULTIPLE) {
    return sink.fail("needs an MPI that was initialised with MPI_THREAD_MULTIPLE; this one (" + library +
                     ") was not: leave mpi4py.rc.thread_level at 'multiple'");
  }
  return 0;
}

struct Piece {
  size_t bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

// One direction of the transfers under way. Its pieces end in their order, so that one is tested at a time. Not by
// MPI_Testsome: MPICH takes that one's errors to the error handler of MPI_COMM_WORLD, which may end the process.
struct Side {
  const char* name;  // MPI's function that begins it
  bool is_send;
  std::deque<Piece> pending{};
  uint64_t moved_bytes = 0;

  // Calls `begin(offset, bytes, request)` for each piece.
  template <typename Begin>
  int start(size_t bytes, const TextSink& sink, Begin begin);
  int test(const TextSink& sink);
  // Counts the piece that has just ended.
  int count_bytes(MPI_Status& status, const TextSink& sink);
};

template <typename Begin>
int Side::start(size_t bytes, const TextSink& sink, Begin begin) {
  for (size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    Piece piece{std::min(kPieceBytes, bytes - offset)};
    const int error = begin(offset, static_cast<int>(piece.bytes), &piece.request);
    if (error != MPI_SUCCESS) {
      return sink.fail(describe(name, error));
    }
    pending.push_back(piece);
  }
  return 0;
}

int Side::test(const TextSink& sink) {
  while (!pending.empty()) {
    int has_ended = 0;
    MPI_Status status{};
    MPI_Request& request = pending.front().request;
    if (const int error = MPI_Test(&request, &has_ended, &status); error != MPI_SUCCESS) {
      if (request == MPI_REQUEST_NULL) {
        pending.pop_front();
      }
      return sink.fail(describe(name, error));
    }
    if (has_ended == 0) {
      return 0;
    }
    const int error = count_bytes(status, sink);
    pending.pop_front();
    if (error != 0) return error;
  }
  return 0;
}

int Side::count_bytes(MPI_Status& status, const TextSink& sink) {
  const size_t wanted = pending.front().bytes;
  int is_cancelled = 0;
  MPI_Test_cancelled(&status, &is_cancelled);
  if (is_cancelled != 0) {
    return 0;
  }
  int received = 0;
  if (!is_send) {
    MPI_Get_count(&status, MPI_BYTE, &received);
  }
  if (!is_send && static_cast<size_t>(received) != wanted) {
    return sink.fail("a message had " + std::to_string(received) + " bytes instead of " + std::to_string(wanted));
  }
  moved_bytes += wanted;
  return 0;
}

}  // namespace

struct RingtuneMpiSession {
  MPI_Comm communicator;
  Side sending{"MPI_Isend", true};
  Side receiving{"MPI_Irecv", false};
};

namespace {

int open_session(int communicator, RingtuneMpiSession** session, char* text, size_t text_bytes) {
  const TextSink sink{text, text_bytes};
  if (check_library(sink) != 0) return 1;
  const MPI_Comm handle = MPI_Comm_f2c(communicator);
  if (handle == MPI_COMM_NULL) {
    return sink.fail("was given no communicator");
  }
  const int error = MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
  if (error != MPI_SUCCESS) {
    return sink.fail(describe("MPI_Comm_set_errhandler", error));
  }
  *session = new RingtuneMpiSession{handle};
  return 0;
}

int start_transfer(RingtuneMpiSession* session, int to, const void* out, size_t out_bytes, int from, void* in,
                   size_t in_bytes, char* text, size_t text_bytes) {
  const TextSink sink{text, text_bytes};
  const MPI_Comm communicator = session->communicator;
  if (is_finalized()) {
    return sink.fail("MPI was finalised while the engine still uses it");
  }
  const int error = session->receiving.start(in_bytes, sink, [&](size_t offset, int bytes, MPI_Request* request) {
    return MPI_Irecv(static_cast<std::byte*>(in) + offset, bytes, MPI_BYTE, from, kTag, communicator, request);
  });
  if (error != 0) return error;
  return session->sending.start(out_bytes, sink, [&](size_t offset, int bytes, MPI_Request* request) {
    return MPI_Isend(static_cast<const std::byte*>(out) + offset, bytes, MPI_BYTE, to, kTag, communicator, request);
  });
}

int test_transfer(RingtuneMpiSession* session, RingtuneMpiProgress* progress, char* text, size_t text_bytes) {
  const TextSink sink{text, text_bytes};
  const int sending_error = session->sending.test(sink);
  const int receiving_error = session->receiving.test(sink);
  *progress = {session->sending.moved_bytes, session->receiving.moved_bytes,
               session->sending.pending.size() + session->receiving.pending.size()};
  return sending_error != 0 ? sending_error : receiving_error;
}

void cancel_transfer(RingtuneMpiSession* session) {
  for (Piece& piece : session->receiving.pending) {
    MPI_Cancel(&piece.request);
  }
}

void abandon_transfer(RingtuneMpiSession* session) { MPI_Comm_set_name(session->communicator, kRingtuneMpiAbandoned); }

void close_session(RingtuneMpiSession* session) { delete session; }

constexpr RingtuneMpiPlugin kPlugin = {
    kRingtuneMpiPluginVersion, open_session,     start_transfer, test_transfer,
    cancel_transfer,           abandon_transfer, close_session,
};

}  // namespace

const RingtuneMpiPlugin* ringtune_mpi_plugin() { return &kPlugin; }

void ringtune_mpi_library_name(char* text, size_t text_bytes) {
  std::snprintf(text, text_bytes, "%s", library_name().c_str());
}
