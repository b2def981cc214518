# SPDX-License-Identifier: Apache-2.0
"""Trains with Keras and with tapes on several ranks, and alone on the joined batches.

Arguments: the way of gradients, as `choose_way` takes it, and cases, or all.
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import ringtune.keras as hvd
import ringtune.tensorflow.keras as horovods_name
from ringtune.session.session import SESSION
from tests.integration.plain_rank import expect_error, run_cases
from tests.tensorflow.ways import choose_way

ROWS = 4  # rows of a batch on each rank
STEPS = 3
AGREED = 4  # bytes by which ranks agree on when to broadcast


def make_model(seed: int = 0) -> Any:
    """Return a small network, equal for equal seeds."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    return keras.Sequential([keras.Input((5,)), layers.Dense(7, "tanh"), layers.LayerNormalization(), layers.Dense(1)])


def joined_data(steps: int = STEPS) -> tuple[Any, Any]:
    """Return the inputs and targets of all ranks, batch after batch."""
    generator = np.random.default_rng(1)
    rows = steps * ROWS * hvd.size()
    inputs = generator.normal(size=(rows, 5)).astype(np.float32)
    return inputs, inputs.sum(1, keepdims=True)


def own_part(values: Any, size: int | None = None, rank: int | None = None) -> Any:
    """Return this rank's rows of each joined batch."""
    size, rank = hvd.size() if size is None else size, hvd.rank() if rank is None else rank
    parts = values.reshape(-1, size, ROWS, values.shape[1])
    return parts[:, rank].reshape(-1, values.shape[1])


def fit(model: Any, optimizer: Any, data: tuple[Any, Any], rows: int, **options: Any) -> dict[str, list[float]]:
    """Train a model for two epochs and return its history."""
    callbacks = options.pop("callbacks", [])
    model.compile(optimizer=optimizer, loss="mse", **options)
    fitted = model.fit(*data, batch_size=rows, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
    return dict(fitted.history)


def train(optimizer: Any, *, tolerance: float = 1e-4, run_eagerly: bool = False, **options: Any) -> dict[str, int]:
    """Train distributed and alone; require equal weights and metrics; return the engine's counts meanwhile."""
    ours, alone = make_model(), make_model()
    inputs, targets = joined_data()
    distributed, reference = (type(optimizer).from_config(optimizer.get_config()) for _ in range(2))
    distributed = hvd.DistributedOptimizer(distributed, **options)
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    before = SESSION.require().engine.counters()
    own = own_part(inputs), own_part(targets)
    history = fit(ours, distributed, own, ROWS, run_eagerly=run_eagerly, callbacks=callbacks)
    after = SESSION.require().engine.counters()
    expected = fit(alone, reference, (inputs, targets), ROWS * hvd.size())
    assert_alike(alone, ours, tolerance)
    assert np.allclose(expected["loss"], history["loss"], tolerance, tolerance), (expected, history)
    return {name: count - before.get(name, 0) for name, count in after.items()}


def assert_alike(expected: Any, got: Any, tolerance: float) -> None:
    """Require equal weights up to rounding, and the same bits on all ranks."""
    for one, other in zip(expected.weights, got.weights, strict=True):
        assert np.allclose(one.numpy(), other.numpy(), tolerance, tolerance), (one, other)
    gathered = hvd.allgather_object([weight.numpy() for weight in got.weights])
    for weights in gathered:
        assert all(np.array_equal(one, other) for one, other in zip(gathered[0], weights, strict=True))


def case_fit() -> None:
    """In graphs and eagerly, ranks train as one process on the joined batch; each step is marked once."""
    for run_eagerly in (False, True):
        counted = train(keras.optimizers.SGD(0.1, momentum=0.9), run_eagerly=run_eagerly)
        assert 2 * STEPS == counted["steps"], counted
        gradients = SESSION.require().gradient_set.counts()
        assert len(make_model().trainable_variables) == sum(gradients.values()), gradients
    train(keras.optimizers.Adam(0.01, clipnorm=0.5))


def case_fusion() -> None:
    """All gradients of a step are in flight together."""
    count = 12
    model = keras.Sequential([keras.Input((4,)), *[keras.layers.Dense(4) for _ in range(count)]])
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD()), loss="mse")
    before = SESSION.require().engine.counters()
    model.fit(np.ones((8, 4)), np.ones((8, 4)), batch_size=1, verbose=0)
    after = SESSION.require().engine.counters()
    tensors, responses = (after[name] - before[name] for name in ("tensors", "responses"))
    assert 8 * 2 * count == tensors, tensors
    assert hvd.size() == 1 or responses < tensors / 2, (responses, tensors)


def case_options() -> None:
    """Compression, groups and predivision train alike."""
    optimizer = keras.optimizers.SGD(0.05)
    plain = train(optimizer)
    narrow = train(optimizer, compression=hvd.Compression.bf16, tolerance=3e-2)
    assert plain["bytes_reduced"] - AGREED == 2 * (narrow["bytes_reduced"] - AGREED), (plain, narrow)
    train(optimizer, compression=hvd.Compression.fp16, gradient_predivide_factor=2.0, tolerance=3e-2)
    train(optimizer, num_groups=2)
    train(optimizer, groups=3)


def case_groups() -> None:
    """Lists of variables are groups; a variable twice is an error; Sum adds."""
    variables = [keras.Variable(np.zeros(2, np.float32)) for _ in range(3)]
    groups = (
        iter(group) for group in [variables[:2], [variables[2].value]]
    )  # read once, however often steps are taken
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum, groups=groups)
    optimizer.apply([tf.fill((2,), hvd.rank() + 1.0), None, tf.ones(2)], variables)
    assert np.array_equal([-hvd.size() * (hvd.size() + 1) / 2] * 2, variables[0].numpy())
    assert np.array_equal([0, 0], variables[1].numpy())
    twice = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), groups=[variables[:1], variables[:1]])
    expect_error(hvd.ConfigError, "disjoint", lambda: twice.apply([tf.ones(2)] * 3, variables))


def case_passes() -> None:
    """Gradients of several passes are added up here; one step is taken and marked for them."""
    inputs, targets = joined_data(4)
    for is_averaged, run_eagerly in ((True, False), (False, True)):
        ours, alone = make_model(), make_model()
        rate = 0.1 if is_averaged else 0.05
        optimizer = hvd.DistributedOptimizer(
            keras.optimizers.SGD(rate, momentum=0.5),
            backward_passes_per_step=2,
            average_aggregated_gradients=is_averaged,
        )
        before = SESSION.require().engine.counters()["steps"]
        fit(ours, optimizer, (own_part(inputs), own_part(targets)), ROWS, run_eagerly=run_eagerly)
        assert 4 == SESSION.require().engine.counters()["steps"] - before
        fit(alone, keras.optimizers.SGD(0.1, momentum=0.5), (inputs, targets), 2 * ROWS * hvd.size())
        assert_alike(alone, ours, 1e-4)
        assert 4 == int(optimizer.iterations)


def words() -> Any:
    """Return an embedding, whose gradient is of some rows alone, and a head."""
    keras.utils.set_random_seed(3)
    layers = keras.layers
    return keras.Sequential([keras.Input((5,)), layers.Embedding(30, 4), layers.Flatten(), layers.Dense(1)])


def case_sparse() -> None:
    """Gradients of embeddings travel as rows, as dense tensors, or in a group, and train alike."""
    inputs, targets = joined_data()
    indices = np.abs(inputs * 10).astype(np.float32) // 1 % 30
    for options in ({}, {"sparse_as_dense": True}, {"groups": 1}):
        ours, alone = words(), words()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), **options)
        fit(ours, optimizer, (own_part(indices), own_part(targets)), ROWS)
        fit(alone, keras.optimizers.SGD(0.1), (indices, targets), ROWS * hvd.size())
        assert_alike(alone, ours, 1e-4)


def case_tape() -> None:
    """A tape's gradients are combined, wrapped before or after it was used, in graphs and eagerly."""
    inputs, targets = joined_data()
    wraps: tuple[Any, ...] = (
        lambda tape: (tape, lambda used: hvd.DistributedGradientTape(used, op=hvd.Average)),
        lambda tape: (hvd.DistributedGradientTape(tape), lambda used: used),
    )
    for is_graph in (False, True):
        for wrap in wraps:
            ours, alone = make_model(), make_model()
            optimizer, reference = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1)

            def step(rows: Any, goals: Any, wrap: Any = wrap, model: Any = ours, optimizer: Any = optimizer) -> None:
                tape, finish = wrap(tf.GradientTape())
                with tape:
                    loss = tf.reduce_mean((model(rows) - goals) ** 2)
                gradients = finish(tape).gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

            run = tf.function(step) if is_graph else step
            before = SESSION.require().engine.counters()["steps"]
            for start in range(0, STEPS * ROWS, ROWS):
                run(own_part(inputs)[start : start + ROWS], own_part(targets)[start : start + ROWS])
            assert STEPS == SESSION.require().engine.counters()["steps"] - before
            alone.compile(optimizer=reference, loss="mse")
            alone.fit(inputs, targets, batch_size=ROWS * hvd.size(), shuffle=False, verbose=0)
            assert_alike(alone, ours, 1e-4)


class Late(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model that has no weights before its first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.head = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """Return one number a row."""
        return self.head(inputs)


def case_broadcast() -> None:
    """Train with the root's weights and optimizer state, whatever the ranks begin with; random states differ."""
    inputs, targets = joined_data()
    callback = [hvd.callbacks.BroadcastGlobalVariablesCallback(hvd.size() - 1)]
    ours, alone = make_model(hvd.rank()), make_model(hvd.size() - 1)
    fit(ours, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), (own_part(inputs), own_part(targets)), ROWS,
        callbacks=callback)  # fmt: skip
    fit(alone, keras.optimizers.SGD(0.1), (inputs, targets), ROWS * hvd.size())
    assert_alike(alone, ours, 1e-4)
    keras.utils.set_random_seed(hvd.rank())
    late: Any = Late()
    if hvd.rank() == 0:
        late(inputs[:1])  # the others have no weights yet: all broadcast after the first batch
    callback = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.1))
    fit(late, optimizer, (own_part(inputs), own_part(targets)), ROWS, callbacks=callback)
    assert_alike(late, late, 0.0)
    states = hvd.allgather_object([np.asarray(variable) for variable in map(tf.convert_to_tensor, optimizer.variables)])
    assert all(np.array_equal(one, other) for one, other in zip(states[0], states[-1], strict=True))


def case_first_batch() -> None:
    """Variables may be broadcast inside the traced step, after the first batch has made the optimizer's."""
    model, optimizer = make_model(hvd.rank()), keras.optimizers.Adam(0.1)

    def step(rows: Any, goals: Any, is_first: bool) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - goals) ** 2)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if is_first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)

    inputs, targets = map(own_part, joined_data())
    run = tf.function(step)
    for start in range(0, STEPS * ROWS, ROWS):
        run(inputs[start : start + ROWS], targets[start : start + ROWS], start == 0)
    assert_alike(model, model, 0.0)


def case_metrics() -> None:
    """Metrics are averaged over the ranks that have them; the learning rate warms up and momentum follows."""
    logs: dict[str, Any] = {"loss": float(hvd.rank()), **({"only": 5.0} if hvd.rank() == 0 else {})}
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    assert (hvd.size() - 1) / 2 == logs["loss"]
    assert 5.0 == logs.get("only", 5.0)
    rates: list[float] = []
    spy: Any = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: rates.append(float(spy.model.optimizer.learning_rate))
    )
    warm_up = hvd.callbacks.LearningRateWarmupCallback(0.08, warmup_epochs=2, verbose=1)
    data = joined_data()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.08, momentum=0.9))
    fit(make_model(), optimizer, (own_part(data[0]), own_part(data[1])), ROWS, callbacks=[warm_up, spy])
    shares = [((step + 1) / STEPS * (hvd.size() - 1) / 2 + 1) / hvd.size() for step in range(2 * STEPS)]
    assert np.allclose(0.08 * np.array(shares), rates), (shares, rates)
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.08, 0.5, start_epoch=1)
    model = make_model()
    fit(model, optimizer := keras.optimizers.SGD(0.08, momentum=0.9), (own_part(data[0]), own_part(data[1])), ROWS)
    schedule.set_model(model)
    momentum = optimizer.momentums[0].numpy().copy()
    schedule.on_epoch_begin(1)
    schedule.on_train_batch_begin(0)
    assert np.allclose(momentum / 2, optimizer.momentums[0].numpy())
    assert np.isclose(0.04, float(optimizer.learning_rate))


def case_saved() -> None:
    """A saved model loads without ringtune, and with it goes on distributed, state included."""
    inputs, targets = joined_data()
    data = own_part(inputs), own_part(targets)
    model = make_model()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), data, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        plain, ours = keras.models.load_model(path), hvd.load_model(path)
    assert type(plain.optimizer) is keras.optimizers.SGD
    assert int(plain.optimizer.iterations) == int(ours.optimizer.iterations) == 2 * STEPS
    ours.fit(*data, batch_size=ROWS, shuffle=False, verbose=0)
    plain.fit(inputs, targets, batch_size=ROWS * hvd.size(), shuffle=False, verbose=0)
    assert_alike(plain, ours, 1e-4)


def case_mixed_precision() -> None:
    """A loss-scale optimizer decides alike on all ranks: it sees combined gradients; the other way is refused."""
    variable = keras.Variable(np.zeros(2, np.float32))
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
    optimizer = hvd.DistributedOptimizer(scaled)
    bad = float("inf") if hvd.rank() == hvd.size() - 1 else 1.0
    tf.function(lambda: optimizer.apply([tf.fill((2,), bad)], [variable]))()
    assert np.array_equal([0.0, 0.0], variable.numpy())
    optimizer.apply([tf.fill((2,), 4.0)], [variable])
    assert np.array_equal([-1.0, -1.0], variable.numpy())
    inner = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    expect_error(hvd.ConfigError, "turn them round", lambda: keras.optimizers.LossScaleOptimizer(inner))
    copied = type(inner).from_config(inner.get_config())
    copied.apply([tf.fill((2,), hvd.rank() - (hvd.size() - 1) / 2)], [variable])
    assert np.array_equal([-1.0, -1.0], variable.numpy())


def case_process_sets() -> None:
    """Ranks of a set combine among themselves; others step alone."""
    alone = hvd.add_process_set([0])
    variable = keras.Variable(np.zeros(2, np.float32))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum, process_set=alone)
    optimizer.apply([tf.fill((2,), hvd.rank() + 1.0)], [variable])
    assert np.array_equal([-(hvd.rank() + 1.0)] * 2, variable.numpy())
    hvd.remove_process_set(alone)


def case_refusals() -> None:
    """Refuse impossible options before training."""
    sgd = keras.optimizers.SGD
    wrong: tuple[tuple[str, Any], ...] = (
        ("Keras 3", lambda: hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))),
        ("wrap it once", lambda: hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd()))),
        ("wrap it once", lambda: hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))),
        ("Adasum", lambda: hvd.DistributedOptimizer(sgd(), op=hvd.Adasum)),
        ("predivide", lambda: hvd.DistributedOptimizer(sgd(), op=hvd.Sum, gradient_predivide_factor=2.0)),
        ("backward_passes", lambda: hvd.DistributedOptimizer(sgd(), backward_passes_per_step=0)),
        ("groups=", lambda: hvd.DistributedOptimizer(sgd(), groups="two")),
    )
    for words_of_error, call in wrong:
        expect_error(hvd.ConfigError, words_of_error, call)
    model = make_model()
    compiled = {"jit_compile": True}
    optimizer = hvd.DistributedOptimizer(sgd())
    expect_error(hvd.ConfigError, "jit_compile=False", lambda: fit(model, optimizer, joined_data(), ROWS, **compiled))


def case_values() -> None:
    """Horovod's collectives for Keras take plain values, with their own order of arguments."""
    assert hvd.size() * 2.0 == float(hvd.allreduce(2.0, "two", average=False))
    assert [[0.0]] * hvd.size() == hvd.allgather([[0.0]]).numpy().tolist()
    assert 0 == int(hvd.broadcast(hvd.rank(), 0))
    assert 1.0 == float(hvd.reducescatter([1.0] * hvd.size())[0])


def case_epochs() -> None:
    """A state counts each epoch once, whether `fit` counts from 0 in each call or from the state's own number."""
    for has_initial in (False, True):
        state, numbers = SimpleNamespace(epoch=0), []
        callback = hvd.elastic.UpdateEpochStateCallback(state)
        for epochs in (2, 3, 1):  # a loss follows each call
            first = state.epoch if has_initial else 0
            callback.on_train_begin()
            for epoch in range(first, first + epochs):
                callback.on_epoch_begin(epoch)
                callback.on_epoch_end(epoch)
                numbers.append(state.epoch)
        assert list(range(1, 7)) == numbers, (has_initial, numbers)


def case_names() -> None:
    """The same module is found under the name that Horovod's users know."""
    assert horovods_name.DistributedOptimizer is hvd.DistributedOptimizer
    assert horovods_name.callbacks is hvd.callbacks
    assert set(hvd.__all__) <= set(vars(horovods_name))


def case_rejoined() -> None:
    """A traced training step goes on in the world that is there, after a shutdown as well."""
    inputs, targets = joined_data()
    data = own_part(inputs), own_part(targets)
    ours, alone = make_model(), make_model()
    fit(ours, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), data, ROWS)
    hvd.shutdown()
    hvd.init()
    ours.fit(*data, batch_size=ROWS, shuffle=False, verbose=0)
    fit(alone, keras.optimizers.SGD(0.1), (inputs, targets), ROWS * hvd.size())
    alone.fit(inputs, targets, batch_size=ROWS * hvd.size(), shuffle=False, verbose=0)
    assert_alike(alone, ours, 1e-4)


if __name__ == "__main__":
    hvd.init()
    choose_way(sys.argv[1], hvd.rank())
    run_cases(globals(), sys.argv[2:])
    hvd.shutdown()
