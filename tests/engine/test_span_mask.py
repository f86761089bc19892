import torch

from precog.engine.span_mask import span_mask


def test_it_allows_exactly_the_continuations_of_the_answer_so_far() -> None:
    context = torch.tensor([[1, 10, 11, 12, 10, 11, 13, 14]])
    mask = span_mask(context, torch.tensor([8]), torch.tensor([[10, 11, 13, 2]]))
    positions = [set(mask[0, j].nonzero()[:, 0].tolist()) for j in range(4)]
    assert positions == [{1, 2, 3, 4, 5, 6, 7}, {2, 5}, {3, 6}, {7}]


def test_padding_is_never_allowed() -> None:
    context = torch.tensor([[1, 10, 11, 12, 0, 0], [1, 10, 0, 0, 0, 0]])
    mask = span_mask(context, torch.tensor([4, 2]), torch.tensor([[10, 11], [10, 2]]))
    assert [set(mask[0, j].nonzero()[:, 0].tolist()) for j in range(2)] == [{1, 2, 3}, {2}]
    assert [set(mask[1, j].nonzero()[:, 0].tolist()) for j in range(2)] == [{1}, set()]
