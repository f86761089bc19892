"""Language modelling on packed documents: what is predicted, and that documents do not see each other."""

import dataclasses

import numpy as np
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train.lm import TokenRows, next_tokens, place_tokens, score_tokens

CONFIG = dataclasses.replace(TennsConfig.preset("tiny"), vocabulary=64)


def model():
    return build(CONFIG).double()


def rows(tokens, starts):
    tokens = torch.tensor([tokens])
    reset = torch.zeros_like(tokens, dtype=torch.bool)
    reset[0, starts] = True
    return TokenRows(tokens, reset)


def test_a_packed_document_costs_what_it_costs_alone():
    network = model()
    first, second = [1, 10, 11, 12, 1, 13, 14], [1, 20, 21, 22, 23]
    packed, count = score_tokens(network, rows([*first, *second], [0, len(first)]))
    alone = [score_tokens(network, rows(tokens, [0])) for tokens in (first, second)]
    torch.testing.assert_close(packed, alone[0][0] + alone[1][0], rtol=1e-12, atol=0)
    assert count == alone[0][1] + alone[1][1] == 5 + 4


def test_the_state_is_carried_across_the_segments_of_a_document():
    network = model()
    tokens = [1, 10, 11, 12, 1, 13, 14, 15]
    carried, _ = score_tokens(network, rows(tokens, [0]))
    cut, _ = score_tokens(network, rows(tokens, [0, 4]))
    assert abs(carried - cut) > 1e-6


def test_a_boundary_is_never_predicted():
    targets = next_tokens(torch.tensor([[1, 5, 6, 1, 7, 8]]))
    assert targets.tolist() == [[5, 6, -100, 7, 8]]


def test_windows_arrive_as_they_are():
    arrays = {"tokens": np.array([[1, 5, 6]], np.int32), "reset": np.array([[True, False, False]])}
    placed = place_tokens(arrays, torch.device("cpu"))
    assert placed.tokens.tolist() == [[1, 5, 6]]
    assert placed.reset.tolist() == [[True, False, False]]


def test_the_loss_is_the_mean_that_a_loop_over_tokens_finds():
    network = model()
    batch = rows([1, 10, 11, 1, 12, 13], [0, 3])
    total, count = score_tokens(network, batch)
    by_hand = 0.0
    for start, stop in ((0, 3), (3, 6)):
        tokens = batch.tokens[:, start:stop]
        scores = network.logits(network(tokens).hidden).log_softmax(-1)
        by_hand -= sum(scores[0, i, tokens[0, i + 1]] for i in range(tokens.shape[1] - 1))
    torch.testing.assert_close(total, by_hand, rtol=1e-12, atol=0)
    assert count == 4
