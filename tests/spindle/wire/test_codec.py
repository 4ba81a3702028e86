from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tinker.proto import tinker_public_pb2 as published
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from spindle.backends.contract import AltTokens, ForwardBackwardResult, SampledSequence, SampleResult, TopK, UserError
from spindle.control.results import Cells
from spindle.wire import schema_pb2 as schema
from spindle.wire.codec import (
    BodyError,
    Budget,
    address_of,
    decompress,
    parse_forward_backward,
    read_forward_backward,
    sample_json,
    write_forward_backward,
    write_sample,
)
from spindle.wire.codec.gradients import MOST_PARTS

ROOM = 1_000_000
"""Bytes that a body may have."""


def message(**tensors: schema.Tensor) -> schema.ForwardBackwardRequest:
    tokens = np.arange(3, dtype=np.int32).tobytes()
    datum = schema.Datum(
        model_input=[schema.Chunk(encoded_text=schema.EncodedTextChunk(tokens=tokens))], loss_fn_inputs=tensors
    )
    return schema.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn="cross_entropy", data=[datum])


def dense(array: "np.ndarray[Any, Any]", shape: list[int] | None = None) -> schema.Tensor:
    dtype = {"f": schema.DTYPE_FLOAT32, "i": schema.DTYPE_INT64}[array.dtype.kind]
    return schema.Tensor(dense=array.tobytes(), dtype=dtype, shape=list(array.shape) if shape is None else shape)


def sparse(values: list[float], rows: list[int], columns: list[int], shape: list[int]) -> schema.Tensor:
    return schema.Tensor(
        sparse_csr=schema.SparseCsr(
            values=np.asarray(values, np.float32).tobytes(),
            crow_indices=np.asarray(rows, np.int64).tobytes(),
            col_indices=np.asarray(columns, np.int64).tobytes(),
        ),
        dtype=schema.DTYPE_FLOAT32,
        shape=shape,
    )


def read_one(tensor: schema.Tensor) -> "np.ndarray[Any, Any]":
    return read_forward_backward(message(weights=tensor), Budget(ROOM)).data[0].loss_inputs["weights"]


@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=2, max_side=5)))
def test_a_dense_tensor_arrives_bit_for_bit(array: "np.ndarray[Any, Any]") -> None:
    found = read_one(dense(array))
    assert found.dtype == np.float32
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable, "torch warns of others"


@given(arrays.arrays(np.float32, (4, 3), elements=st.sampled_from([0.0, 1.5, -2.0])))
def test_a_sparse_tensor_is_the_dense_one_it_stands_for(array: "np.ndarray[Any, Any]") -> None:
    rows, columns = np.nonzero(array)
    starts = np.searchsorted(rows, np.arange(5))
    tensor = sparse(array[rows, columns].tolist(), starts.tolist(), columns.tolist(), [4, 3])
    assert np.array_equal(read_one(tensor), array)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (dense(np.zeros(3, np.float32), [2, 2]), r"has 3 values, which do not fill its shape \[2, 2\]"),
        (dense(np.zeros(3, np.float32), [-3]), "do not fill its shape"),
        (dense(np.zeros(0, np.float32), [2**62, 0]), "do not fill its shape"),
        (dense(np.zeros(1, np.float32), [1] * 100), "has 100 dimensions; expected at most 8"),
        (sparse([], [0], [], [0, 2**62]), "is sparse with shape"),
        (schema.Tensor(dense=b"123", dtype=schema.DTYPE_FLOAT32), "no whole number of float32"),
        (schema.Tensor(dense=b"", dtype=schema.DTYPE_BFLOAT16), "has dtype 4"),
        (sparse([1.0], [0, 1], [0], [1]), "expected two dimensions"),
        (sparse([1.0], [0, 0, 2], [0], [2, 2]), "sparse indices"),
        (sparse([1.0], [0, 1, 1], [5], [2, 2]), "sparse indices"),
        (sparse([1.0, 1.0], [0, 3, 2], [0, 1], [2, 2]), "sparse indices"),
        (sparse([], [], [], [2, 2]), "sparse indices"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused_with_its_place(tensor: schema.Tensor, words: str) -> None:
    with pytest.raises(UserError, match=words) as refusal:
        read_one(tensor)
    assert "data[0].loss_fn_inputs['weights']" in str(refusal.value)


def test_text_chunks_are_joined_and_other_kinds_refused() -> None:
    request = message()
    extra = request.data[0].model_input.add()
    extra.encoded_text.tokens = np.asarray([7, 8], np.int32).tobytes()
    tokens = read_forward_backward(request, Budget(ROOM)).data[0].tokens
    assert tokens.dtype == np.int64
    assert tokens.tolist() == [0, 1, 2, 7, 8]
    request.data[0].model_input.add().image.data = b"png"
    with pytest.raises(UserError, match="chunk of kind image"):
        read_forward_backward(request, Budget(ROOM))


def test_the_newer_configuration_wins_over_the_older() -> None:
    request = message()
    request.loss_fn_config["clip"] = 1.0
    request.loss_fn_config["old"] = 2.0
    request.loss_fn_config_v2["clip"].number = 3.0
    request.loss_fn_config_v2["loss_id"].text = "abc"
    assert read_forward_backward(request, Budget(ROOM)).config == {"clip": 3.0, "old": 2.0, "loss_id": "abc"}


def test_a_compressed_body_is_read_and_a_bomb_is_not() -> None:
    body = message().SerializeToString()
    assert decompress(zstandard.compress(body), ROOM) == body
    bomb = zstandard.compress(bytes(50_000_000))
    with pytest.raises(BodyError, match="more than 1000000 bytes"):
        decompress(bomb, limit=1_000_000)


def test_broken_bodies_are_told_apart() -> None:
    with pytest.raises(BodyError, match="not valid zstd"):
        decompress(b"plainly not", ROOM)
    with pytest.raises(BodyError, match="not a protobuf"):
        parse_forward_backward(b"\xff\xff\xff")
    rng = np.random.default_rng(0)
    whole = zstandard.compress(rng.bytes(400_000))
    with pytest.raises(BodyError, match=r"ends early|not valid"):
        decompress(whole[: len(whole) // 2], ROOM)


def test_the_client_reads_our_training_results() -> None:
    """Datums of different lengths, ranks and widths, read by the stock SDK's own decoder."""
    outputs = [
        {"logprobs": np.asarray([-1.0, -2.0], np.float32)},
        {"logprobs": np.asarray([-3.0], np.float32)},
        {"logprobs": np.asarray([[-4.0, -5.0], [-6.0, -7.0]], np.float32)},
        {"logprobs": np.asarray([[-4.0, -5.0, -5.5]], np.float32)},
        {"logprobs": np.asarray([-8.0], np.float32)},
    ]
    body = write_forward_backward(ForwardBackwardResult(outputs, {"loss:sum": float("nan"), "tokens:sum": 4.0}))
    read = deserialize_forward_backward_output(body)
    assert np.isnan(read.metrics["loss:sum"])
    assert read.metrics["tokens:sum"] == 4.0
    for expected, found in zip(outputs, read.loss_fn_outputs, strict=True):
        assert np.array_equal(found["logprobs"].to_numpy(), expected["logprobs"])
    assert deserialize_forward_backward_output(write_forward_backward(ForwardBackwardResult([], {}))).metrics == {}


def test_the_client_reads_our_samples() -> None:
    sequences = [
        SampledSequence(np.asarray([5, 6], np.int32), np.asarray([-0.5, -0.25], np.float32), "stop"),
        SampledSequence(np.asarray([7], np.int32), np.asarray([-1.0], np.float32), "length"),
    ]
    read = deserialize_sample_response(write_sample(SampleResult(sequences, np.asarray([np.nan, -3.0], np.float32))))
    assert [sequence.stop_reason for sequence in read.sequences] == ["stop", "length"]
    assert read.sequences[0].tokens == [5, 6]
    assert read.sequences[0].logprobs == [-0.5, -0.25]
    assert read.prompt_logprobs == [None, -3.0]
    assert deserialize_sample_response(write_sample(SampleResult(sequences, None))).prompt_logprobs is None


def test_our_schema_has_the_published_fields_at_their_numbers() -> None:
    for name, ours in schema.DESCRIPTOR.message_types_by_name.items():
        theirs = published.DESCRIPTOR.message_types_by_name[name].fields_by_name
        for field in ours.fields:
            expected = theirs[field.name]
            assert (field.number, field.type) == (expected.number, expected.type), f"{name}.{field.name}"
    for name, numbers in schema.DESCRIPTOR.enum_types_by_name.items():
        found = {value.name: value.number for value in numbers.values}
        assert found == {value.name: value.number for value in published.DESCRIPTOR.enum_types_by_name[name].values}


def topk(rows: list[list[tuple[int, float]]]) -> TopK:
    return TopK(
        np.asarray([[token for token, _ in row] for row in rows], np.int32),
        np.asarray([[value for _, value in row] for row in rows], np.float32),
    )


EMPTY = (0, -99999.0)


def full_sample() -> SampleResult:
    tokens, logprobs = np.asarray([5, 6], np.int32), np.asarray([-0.5, -0.25], np.float32)
    return SampleResult(
        [SampledSequence(tokens, logprobs, "stop", topk([[(5, -0.5), (7, -1.0)], [(6, -0.25), EMPTY]]))],
        np.asarray([np.nan, -3.0, -4.0], np.float32),
        topk_prompt=topk([[EMPTY, EMPTY], [(1, -3.0), (2, -3.5)], [(3, -0.5), EMPTY]]),
        target_prompt_logprobs=np.asarray([[-1.0, 0.0, -2.0], [0.0, 0.0, -3.0]], np.float32),
        prompt_alt_tokens=AltTokens(np.asarray([[9], [8]]), np.asarray([[-1.5], [-2.5]], np.float32)),
        prompt_cache_hit_tokens=2,
    )


def test_the_client_reads_everything_that_a_sample_can_have() -> None:
    read = deserialize_sample_response(write_sample(full_sample()))
    assert read.topk_prompt_logprobs == [None, [(1, -3.0), (2, -3.5)], [(3, -0.5)]]
    assert read.sequences[0].topk_logprobs == [[(5, -0.5), (7, -1.0)], [(6, -0.25)]]
    assert read.target_prompt_logprobs is not None
    assert read.target_prompt_logprobs.tolist() == [[-1.0, 0.0, -2.0], [0.0, 0.0, -3.0]]
    assert read.target_prompt_logprobs.sparse_crow_indices is None
    assert read.prompt_alt_tokens is not None
    assert read.prompt_alt_tokens.tokens.tolist() == [[9], [8]]
    assert read.prompt_alt_tokens.logprobs.tolist() == [[-1.5], [-2.5]]
    assert read.prompt_cache_hit_tokens == 2


def test_target_logprobs_go_back_in_the_layout_that_the_ids_came_in() -> None:
    cells = Cells(np.asarray([0, 2, 3]), np.asarray([0, 2, 2]))
    target = deserialize_sample_response(write_sample(full_sample(), cells)).target_prompt_logprobs
    assert target is not None
    assert (target.sparse_crow_indices, target.sparse_col_indices, target.shape) == ([0, 2, 3], [0, 2, 2], [2, 3])
    assert target.data == [-1.0, -2.0, -3.0]


def test_older_clients_read_a_sample_as_json() -> None:
    answer = sample_json(full_sample())
    assert answer["sequences"] == [{"tokens": [5, 6], "logprobs": [-0.5, -0.25], "stop_reason": "stop"}]
    assert answer["prompt_logprobs"] == [None, -3.0, -4.0]
    assert answer["topk_prompt_logprobs"] == [None, [(1, -3.0), (2, -3.5)], [(3, -0.5)]]
    plain = sample_json(SampleResult([], None))
    assert "prompt_logprobs" not in plain
    assert "error" not in plain


@pytest.mark.parametrize("inside", [False, True])
def test_a_request_of_countless_empty_parts_is_refused(inside: bool) -> None:
    """Two bytes each on the wire, next to none compressed, and hundreds in memory."""
    if inside:
        empty = schema.Chunk(encoded_text=schema.EncodedTextChunk())
        request = schema.ForwardBackwardRequest(data=[schema.Datum(model_input=[empty] * MOST_PARTS)])
    else:
        request = schema.ForwardBackwardRequest.FromString(b"\x1a\x00" * (MOST_PARTS + 1))
    with pytest.raises(UserError, match=rf"holds {MOST_PARTS + 1} data, chunks and loss inputs"):
        read_forward_backward(request, Budget(8000))


def test_all_sparse_tensors_of_a_request_share_its_limit() -> None:
    """A hundred bytes can declare a matrix of gigabytes."""
    wide = sparse([1.0], [0, 1], [0], [1, 1000])
    request = message(weights=wide, advantages=wide)
    assert read_forward_backward(request, Budget(8000)).data[0].loss_inputs["weights"].shape == (1, 1000)
    with pytest.raises(UserError, match=r"fills out to 4000 bytes, more than the 3999 that are left"):
        read_forward_backward(request, Budget(7999))
    with pytest.raises(UserError, match="limit body_bytes"):
        read_one(sparse([1.0], [0, 1], [0], [1 << 40, 1 << 20]))


@pytest.mark.parametrize("seq_id", [1, 127, 128, 300, 2**31 - 1])
def test_a_cut_body_still_says_whose_it_is(seq_id: int) -> None:
    request = message(weights=dense(np.random.default_rng(0).random(100_000).astype(np.float32)))
    request.model_id, request.seq_id = "a-session:train:0", seq_id
    body = request.SerializeToString()
    packed = zstandard.compress(body)
    assert address_of(body[:40], compressed=False) == ("a-session:train:0", seq_id)
    assert address_of(packed[: len(packed) // 2], compressed=True) == ("a-session:train:0", seq_id)
    assert address_of(body[:18], compressed=False) is None
    assert address_of(b"plainly not", compressed=True) is None
    assert address_of(b"\xff" * 100, compressed=False) is None
