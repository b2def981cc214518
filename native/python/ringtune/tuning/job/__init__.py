# SPDX-License-Identifier: Apache-2.0
"""One tuning job: all that engine, DDP and launches share between a window and a decision.

The way of a sample, in order of the files:

1. `windows`: ends of steps become a window, valid or void. (The engine builds its windows in C++ by the same rules.)
2. `target`: a target yields its windows to `ringtune.tuner`, which turns them into samples and decides.
3. `log_sinks`: each record goes to every sink: the metrics, the service's report, the kept run, the file.
4. `observers`: progress and verdicts go to every observer: timeline, display, metrics, the user's callbacks.
5. `thread`: rank 0's tuning thread takes the decision to the ranks, and then the run to `memory`.

`question` puts settings, memory and priors together before each search. Wiring of a framework or of the engine lives in
`ringtune.tuning.engine`, `ringtune.tuning.model` (DDP and FSDP2) and `ringtune.tuning.command`.
"""
