"""Checks that the parallel forms used for training and evaluation equal plain step-by-step inference.

    python -m unittest test_recipes
"""

import os
import tempfile
import unittest

import numpy as np
import torch

import acceptance
import ceiling
import common
import family
import features
import targets
import train_dflash
import train_joint
from model import CausalLM, Config, DFlash
from sample import generate

SHAPE = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             intermediate_size=96, vocab_size=50)


def randomized(module, seed):
    """A module with weights large enough that its outputs differ from token to token."""
    g = torch.Generator().manual_seed(seed)
    for p in module.parameters():
        p.data = torch.randn(p.shape, generator=g) * 0.2 + (1.0 if p.dim() == 1 else 0.0)
        p.requires_grad_(False)
    return module


class Recipes(unittest.TestCase):
    """Every test compares a vectorized form with the obvious one."""

    def setUp(self):
        self.target = targets.Own(randomized(CausalLM(Config(**SHAPE)), 1), torch.device("cpu"))
        self.held = np.random.default_rng(0).integers(0, 50, 400).astype(np.uint16)

    def streams(self, temperature):
        """Streams of a random target, none dropped for looping."""
        s = acceptance.Streams(self.target, self.held, 5, 9, 14, temperature, (0, 2), 3, least=0.0)
        self.assertGreater(len(s.x), 0)
        return s

    def test_given_a_cache_when_generating_then_tokens_are_those_of_full_forwards(self):
        prompt = torch.from_numpy(self.held[:12].astype(np.int64)).view(2, 6)
        x = generate(self.target, prompt, 20, torch.zeros(2), torch.Generator())
        for n in range(6, 20):
            best = self.target.head(self.target.features(x[:, :n])[0])[:, -1].argmax(-1)
            self.assertTrue(torch.equal(best, x[:, n]))

    def test_given_true_tokens_when_chained_in_training_then_each_step_equals_inference(self):
        head = randomized(family.make_mtp(self.target.config, 96), 2)
        x = torch.from_numpy(self.held[:11].astype(np.int64))[None]
        h, _ = self.target.features(x)
        e = self.target.embed(x)
        outs = head.chain(e[:, 1:], h[:, :-1], 4)
        for p in range(1, 8):  # the chain whose first entry consumes token p
            y, past = head(e[:, 1 : p + 1], h[:, :p], torch.arange(p))
            torch.testing.assert_close(outs[0][:, p - 1], y[:, -1])
            state = y[:, -1:]
            for j in range(1, 4):
                state, past = head(e[:, p + j : p + j + 1], state, torch.tensor([p - 1 + j]), past)
                torch.testing.assert_close(outs[j][:, p - 1], state[:, 0], rtol=1e-4, atol=1e-4)

    def test_given_noise_when_drafting_then_chains_equal_step_by_step_drafting(self):
        draft = randomized(CausalLM(Config(**SHAPE)), 4)
        for temperature in (0.0, 0.8):
            s = self.streams(temperature)
            got = acceptance.draft_chains(draft, s, 4)
            first, count = s.chains(4)
            for r in range(len(s.x)):
                for i in range(count):
                    x = s.x[r : r + 1, : first + i + 1]
                    for j in range(4):
                        logits = draft(x)[0, -1]
                        if temperature:
                            logits = logits / temperature + s.noise[i + j, r]
                        self.assertEqual(int(got[r, i, j]), int(logits.argmax()))
                        x = torch.cat([x, got[r, i, j].view(1, 1)], 1)

    def test_given_streams_when_drafting_with_mtp_then_chains_equal_inference(self):
        head = randomized(family.make_mtp(self.target.config, 96), 5)
        s = self.streams(0.0)
        got = acceptance.mtp_chains(head, self.target, s, 4)
        first, count = s.chains(4)
        e = self.target.embed(s.x)
        for i in range(count):
            a = first + i
            y, past = head(e[:, 1 : a + 1], s.hidden[:, :a], torch.arange(a))
            y = y[:, -1:]
            for j in range(4):
                token = self.target.head(y)[:, 0].argmax(-1)
                self.assertTrue(torch.equal(got[:, i, j], token))
                y, past = head(self.target.embed(token[:, None]), y, torch.tensor([a + j]), past)

    def test_given_many_blocks_when_drafting_with_dflash_then_each_equals_a_block_alone(self):
        c = Config(**SHAPE | dict(num_hidden_layers=2))
        d = randomized(DFlash(c, 64, (0, 2), 4, 49, ["full_attention", "sliding_attention"], 5), 6)
        s = self.streams(0.0)
        got = acceptance.dflash_chains(d, self.target, s, 3)
        first, count = s.chains(3)
        mask = self.target.embed(torch.tensor([49]))[0]
        for i in range(count):
            at = first + i
            context = d.context([t[:, :at] for t in s.taps])
            y = d(context, torch.tensor([at]), self.target.embed(s.x[:, at : at + 1]), mask)[:, 0, 1:]
            self.assertTrue(torch.equal(got[:, i], self.target.head(y).argmax(-1)))

    def test_given_perfect_proposals_when_walked_then_every_round_is_full(self):
        s = self.streams(0.0)
        first, count = s.chains(3)
        truth = torch.stack([s.x[:, first + 1 + j : first + 1 + j + count] for j in range(3)], -1)
        mean, curve, share = acceptance.walk(s, truth, 3)
        self.assertEqual((mean, share), (4.0, 1.0))
        mean, _, _ = acceptance.walk(s, (truth + 1) % 50, 3)
        self.assertEqual(mean, 1.0)

    def test_given_stored_features_when_batched_then_they_are_the_targets(self):
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "train.npy"), np.random.default_rng(1).integers(0, 50, 30_000).astype(np.uint16))
            features.store(folder, self.target, common.Mixture(folder, 1), (0, 2), 256, 4)
            features.write_index(folder, (0, 2))
            x, h, taps = features.Stored(folder, 1).batch(3, 1, 256, (2,))
            self.assertEqual(x.shape, (4, 256))
            want, tapped = self.target.features(x, (2,))
            for got, wanted in ((h, want), (taps[0], tapped[0])):
                torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)

    def test_given_blocks_when_weighted_then_a_slot_counts_as_often_as_it_is_reached(self):
        log = lambda seed: torch.log_softmax(torch.randn(1, 3, 50, generator=torch.Generator().manual_seed(seed)), -1)
        student, teacher, x = log(1), log(2), torch.arange(10)[None]
        got = train_dflash.reached(x, student, teacher, torch.tensor([4, 5, 6]), torch.zeros(3).long(), torch.arange(3))
        accepted = [min(1, (student - teacher)[0, i, 5 + i].exp().item()) for i in range(2)]
        torch.testing.assert_close(got[0], torch.tensor([1, accepted[0], accepted[0] * accepted[1]]))

    def test_given_a_pair_when_trained_together_then_the_drafter_moves_hiddens_and_agreement_the_answer(self):
        target = CausalLM(Config(**SHAPE))
        pair = train_joint.Pair(target, DFlash(Config(**SHAPE | dict(num_hidden_layers=2)), 64, (0, 2), 4, 49))
        rows = torch.from_numpy(self.held[:42].astype(np.int64)).view(2, 21)
        _, draft, agree = train_joint.loss_on(pair, rows, 6, 0.5, 0.2, 1, 1)
        moved = lambda loss, p: torch.autograd.grad(loss, p, retain_graph=True, allow_unused=True)[0] is not None
        last = target.model.layers[2].mlp.up_proj.weight
        self.assertTrue(moved(draft, last))
        self.assertFalse(moved(draft, target.model.norm.weight))
        self.assertTrue(moved(agree, target.model.norm.weight))
        self.assertFalse(moved(agree, pair.drafter.fc.weight))

    def test_given_a_prefix_when_bounded_then_the_first_slot_is_right_and_the_second_is_the_marginal(self):
        s = self.streams(0.8)
        first, _ = s.chains(3)
        x = s.x[0, : first + 1]
        block = ceiling.Block(self.target, x, s.noise[:3, 0], 0.8, 4000, 1, torch.Generator().manual_seed(1))
        self.assertEqual(block[0], int(s.x[0, first + 1]))
        block[1]
        after = torch.cat([x.expand(50, -1), torch.arange(50)[:, None]], 1)
        say = lambda tokens: torch.softmax(self.target.head(self.target.features(tokens)[0])[:, -1] / 0.8, -1)
        torch.testing.assert_close(block.p.mean(0), (say(x[None]) @ say(after))[0], rtol=0, atol=0.02)


if __name__ == "__main__":
    unittest.main()
