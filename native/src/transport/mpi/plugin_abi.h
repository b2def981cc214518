// SPDX-License-Identifier: Apache-2.0
// The C ABI between the engine and the MPI transport's plugin: a shared library that is compiled on the user's machine
// with his MPI's own compiler wrapper, so that the engine itself is linked to no MPI.
//
// Functions that can fail return 0, or another number and an English sentence in `text` (ended by a zero, cut to
// `text_bytes`). One thread at a time uses a session; different sessions may be used at once.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Raised whenever anything in this file changes.
inline constexpr uint32_t kRingtuneMpiPluginVersion = 2;

// A communicator as the engine uses it.
struct RingtuneMpiSession;

// The MPI name of a communicator whose transfers were abandoned: MPI_Finalize may wait for ever for them.
inline constexpr char kRingtuneMpiAbandoned[] = "ringtune: abandoned";

// Counted since the session was opened.
struct RingtuneMpiProgress {
  uint64_t sent_bytes;
  uint64_t received_bytes;
  uint64_t pending_pieces;  // 0: all is through, or was cancelled
};

struct RingtuneMpiPlugin {
  uint32_t version;
  // Takes a communicator (Fortran handle) that no other code uses. Fails where MPI cannot be used from several threads.
  int (*open)(int communicator, RingtuneMpiSession** session, char* text, size_t text_bytes);
  // Begins to send `out` to a rank and to receive `in` from one; a side without bytes has no peer. Earlier transfers go
  // on beside it, and are counted first.
  int (*start)(RingtuneMpiSession* session, int to, const void* out, size_t out_bytes, int from, void* in,
               size_t in_bytes, char* text, size_t text_bytes);
  // Advances the transfers and counts the bytes that are through; never blocks.
  int (*test)(RingtuneMpiSession* session, RingtuneMpiProgress* progress, char* text, size_t text_bytes);
  // Requests an early end of receives that no peer has begun to serve. `test` tells when it has ended.
  void (*cancel)(RingtuneMpiSession* session);
  // Leaves pending transfers to MPI, and gives the communicator its name for that.
  void (*abandon)(RingtuneMpiSession* session);
  void (*close)(RingtuneMpiSession* session);
};

// Table that the plugin exports. It lives as long as the library.
const RingtuneMpiPlugin* ringtune_mpi_plugin();
// The MPI library that the plugin uses, by its own name and version, as `MPI_Get_library_version` begins (up to a comma
// or the line's end). May be asked before MPI is initialised.
void ringtune_mpi_library_name(char* text, size_t text_bytes);

}  // extern "C"
