#!/usr/bin/env python3
"""Tests of the reference that need no golden folder: hand-computed vectors, fast forms against definitions."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import checkpoint
import kda
import layers
import mla
import moe
import mxfp4
import residuals
from config import ConfigError, config_from_dict
from initialise import initialise
from model import Model, Options

SMALL = {
    "text_config": {
        "hidden_act": "situ",
        "latent_moe_use_norm": True,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "moe_layer_freq": 1,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "num_expert_group": 1,
        "num_nextn_predict_layers": 0,
        "tie_word_embeddings": False,
        "topk_group": 1,
        "vocab_size": 50,
        "hidden_size": 48,
        "num_hidden_layers": 4,
        "rms_norm_eps": 1e-5,
        "attn_res_block_size": 2,
        "linear_attn_config": {
            "kda_layers": [1, 2],
            "full_attn_layers": [3, 4],
            "num_heads": 3,
            "head_dim": 8,
            "short_conv_kernel_size": 4,
            "gate_lower_bound": -5.0,
            "use_full_rank_gate": True,
        },
        "num_attention_heads": 2,
        "q_lora_rank": 12,
        "kv_lora_rank": 10,
        "qk_nope_head_dim": 7,
        "qk_rope_head_dim": 5,
        "v_head_dim": 9,
        "first_k_dense_replace": 1,
        "intermediate_size": 40,
        "num_experts": 6,
        "num_experts_per_token": 2,
        "num_shared_experts": 2,
        "moe_intermediate_size": 32,
        "routed_expert_hidden_size": 64,
        "routed_scaling_factor": 1.5,
        "activation_situ_beta": 4.0,
        "activation_situ_linear_beta": 25.0,
    }
}


def small_model(options=Options(), seed=1):
    torch.manual_seed(seed)
    return initialise(Model(config_from_dict(SMALL), options))


def random_kda_inputs(tokens, heads=2, width=8, dtype=torch.float64):
    """Normalised q and k, decays down to the lower bound, a state that is not zero."""
    torch.manual_seed(tokens)
    q, k, v, decay = torch.randn(4, 2, tokens, heads, width, dtype=dtype)
    log_alpha = -5 * torch.sigmoid(3 * decay)
    beta = torch.sigmoid(torch.randn(2, tokens, heads, dtype=dtype))
    s = torch.randn(2, heads, width, width, dtype=dtype)
    inputs = [kda.normalised_query(q), kda.l2_normalised(k), v, log_alpha, beta, s]
    return [x.detach().requires_grad_() for x in inputs]


class Vectors(unittest.TestCase):
    """Expected values computed by hand in float64."""

    def assert_close(self, ours, expected, tolerance=1e-6):
        expected = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(ours.double(), expected, rtol=tolerance, atol=tolerance)

    def test_situ(self):
        gate, up = torch.tensor([[1, 1], [-2, 3], [10, 50], [0.5, -0.25], [-8, 8.0]]).T
        expected = [0.7158178280748404, -0.6578738185454248, 95.1080215340149]
        expected += [-0.07740210626268235, -0.010005949432216499]
        self.assert_close(layers.situ(gate, up, 4, 25), expected)

    def test_bounded_decay(self):
        a_log, z = torch.tensor([0, 0.2912, 1.0066, -0.4684]), torch.tensor([0, -3.0, 2, -6])
        ours = kda.log_decay(z.view(4, 1), a_log, torch.zeros(4), -5.0)[:, 0]
        self.assert_close(ours, [-2.5, -0.08869456097558229, -4.979085600511825, -0.1142132340067219])

    def test_two_steps_of_the_delta_rule(self):
        def heads(*rows):
            return torch.tensor(rows, dtype=torch.float64)[None, :, None]

        q = kda.normalised_query(heads([1, 1], [0.5, -1]))
        k = kda.l2_normalised(heads([2, -1], [1, 1]))
        v, log_alpha = heads([1, 3], [-2, 0.5]), heads([-0.5, -1.0], [-2.0, -0.1])
        beta = torch.tensor([0.5, 0.8], dtype=torch.float64)[None, :, None]
        o, s = kda.recurrence(q, k, v, log_alpha, beta, torch.zeros(1, 1, 2, 2, dtype=torch.float64))
        self.assert_close(o[0, 0, 0], [0.11180335974381483, 0.3354100792314445], 1e-12)
        self.assert_close(o[0, 1, 0], [0.4869362751239547, 0.29805423286244603], 1e-12)
        expected = [[-1.0141252209600908, 0.6345786800513038], [-1.2769767708205677, -0.15397596953012738]]
        self.assert_close(s[0, 0], expected, 1e-12)

    def test_attention_residual(self):
        config = config_from_dict(SMALL)
        proj, norm = layers.linear(4, 1, torch.float32), layers.RmsNorm(4, config.rms_norm_eps, torch.float32)
        proj.weight.data[:] = torch.tensor([0.2, -0.1, 0.3, 0.05])
        bank = [torch.tensor([1, -2, 0.5, 3]), torch.tensor([0.1, 0.2, -0.3, 0.4])]
        ours = residuals.attn_res(torch.tensor([5.0, 5, -5, 0]), bank, proj, norm)
        expected = [1.8213238803431036, 0.40627921033211556, -1.1523033633401931, 1.543384063352933]
        self.assert_close(ours.detach(), expected)

    def test_mxfp4(self):
        packed = torch.tensor([[0x21, 0xF7, 0x90, 0x3C] + [0] * 12], dtype=torch.uint8)
        ours = mxfp4.decode(packed, torch.tensor([[125]], dtype=torch.uint8))
        self.assert_close(ours[0, :8], [0.125, 0.25, 1.5, -1.5, 0, -0.125, -0.5, 0.375], 0)

    def test_router_selects_by_bias_and_weighs_without(self):
        s = torch.sigmoid(torch.tensor([[0.3, -1.2, 2.0, 0.9]]))
        bias = torch.tensor([0.5, 0, -0.4, 0.1])
        ids = moe.select(s, bias, 2)
        self.assertEqual(ids.tolist(), [[0, 3]])
        self.assert_close(moe.routing_weights(s, ids, bias, 1.0)[0], [0.44690064052475975, 0.5530993594752404])

    def test_ties_go_to_the_lower_expert(self):
        self.assertEqual(moe.select(torch.full((1, 300), 0.5), torch.zeros(300), 3).tolist(), [[0, 1, 2]])


class ChunkedKda(unittest.TestCase):
    def test_equals_the_recurrence_and_its_gradients(self):
        for tokens in (1, 15, 32, 33, 100):
            for chunk in (2, 16, 32):
                inputs = random_kda_inputs(tokens)
                slow = kda.recurrence(*inputs)
                fast = kda.chunked(*inputs, chunk, -5.0)
                weights = [torch.randn_like(x) for x in slow]
                losses = [sum((x * w).sum() for x, w in zip(outputs, weights)) for outputs in (slow, fast)]
                for a, b in zip(slow, fast):
                    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
                for a, b in zip(*(torch.autograd.grad(loss, inputs) for loss in losses)):
                    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)

    def test_float32_survives_the_strongest_decay_in_every_channel(self):
        inputs = [x.detach().float() for x in random_kda_inputs(64)]
        inputs[3] = torch.full_like(inputs[3], -5.0)
        inputs = [x.requires_grad_() for x in inputs]
        fast = kda.chunked(*inputs, 32, -5.0)
        for a, b in zip(kda.recurrence(*inputs), fast):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-6)
        for gradient in torch.autograd.grad(fast[0].sum() + fast[1].sum(), inputs):
            self.assertTrue(gradient.isfinite().all())

    def test_refuses_chunks_that_could_overflow(self):
        with self.assertRaises(ValueError):
            kda.chunked(*random_kda_inputs(64), 64, -5.0)


class CarriedState(unittest.TestCase):
    def test_any_split_of_a_prompt_gives_the_same_logits(self):
        for options in (Options(), Options(kda_chunk=4)):
            model = small_model(options)
            ids = torch.randint(50, (2, 21))
            whole, _ = model(ids)
            for cuts in ([1] * 21, [2, 1, 18], [13, 8]):
                states, parts = None, []
                for piece in ids.split(cuts, dim=1):
                    logits, states = model(piece, states)
                    parts.append(logits)
                torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-5)

    def test_a_later_token_changes_no_earlier_logits(self):
        model = small_model(Options(kda_chunk=4, fused_attention=True))
        ids = torch.randint(50, (1, 12))
        changed = ids.clone()
        changed[0, 9] = (changed[0, 9] + 1) % 50
        before, after = model(ids)[0][0], model(changed)[0][0]
        torch.testing.assert_close(before[:9], after[:9], rtol=1e-5, atol=1e-6)
        self.assertGreater(float((before[9:] - after[9:]).detach().abs().max()), 1e-3)


class Training(unittest.TestCase):
    def test_fast_options_give_the_gradients_of_the_definition(self):
        ids = torch.randint(50, (2, 19), generator=torch.Generator().manual_seed(3))
        gradients = []
        for options in (Options(), Options(kda_chunk=8, fused_attention=True)):
            model = small_model(options)
            model(ids)[0].square().mean().backward()
            gradients.append({n: p.grad for n, p in model.named_parameters() if p.requires_grad})
        for name, expected in gradients[0].items():
            if ".layers.0.self_attention_res_" in name:  # nothing to mix before the first block
                self.assertIsNone(expected)
                continue
            self.assertTrue(expected is not None and expected.abs().max() > 0, name)
            error = (gradients[1][name] - expected).norm() / expected.norm()
            self.assertLess(float(error), 1e-3, name)

    def test_experts_equal_a_sum_over_each_token(self):
        config = config_from_dict(SMALL)
        experts = initialise_experts(moe.Experts(config, torch.float32))
        z, ids = torch.randn(9, 64), torch.stack([torch.randperm(6)[:2] for _ in range(9)])
        weights = torch.rand(9, 2)
        for token in range(9):
            expected = 0
            for e, weight in zip(ids[token], weights[token]):
                hidden = layers.situ(experts.w1[e] @ z[token], experts.w3[e] @ z[token], 4.0, 25.0)
                expected = expected + weight * (experts.w2[e] @ hidden)
            torch.testing.assert_close(experts(z, ids, weights)[token], expected, rtol=1e-4, atol=1e-4)

    def test_quantised_experts_see_mxfp4_values_and_pass_the_gradient_through(self):
        weight = torch.randn(6, 32, 64, requires_grad=True)
        seen = mxfp4.fake_quantise(weight)
        torch.testing.assert_close(seen, mxfp4.decode(*mxfp4.encode(weight.detach())), rtol=0, atol=0)
        scale = torch.randn_like(seen)
        (seen * scale).sum().backward()
        torch.testing.assert_close(weight.grad, scale, rtol=0, atol=0)


def initialise_experts(experts):
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter)
    return experts


class Mxfp4(unittest.TestCase):
    def test_every_code_survives(self):
        values = mxfp4.E2M1.repeat(2)[None] * 2.0**-3
        packed, scale = mxfp4.encode(values)
        self.assertEqual(scale.tolist(), [[124]])
        decoded = mxfp4.decode(packed, scale)
        self.assertTrue(torch.equal(decoded, values))
        self.assertTrue(torch.equal(decoded.signbit(), values.signbit()))

    def test_ties_round_to_the_even_code_and_large_values_saturate(self):
        row = torch.zeros(1, 32)
        row[0, :9] = torch.tensor([6.9, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -5])
        self.assertEqual(mxfp4.decode(*mxfp4.encode(row))[0, :9].tolist(), [6, 0, 1, 1, 2, 2, 4, 4, -4])

    def test_a_mantissa_of_seven_quarters_takes_the_next_scale(self):
        row = torch.zeros(1, 32)
        row[0, 0] = 7.0
        self.assertEqual(mxfp4.encode(row)[1].item(), 128)
        self.assertEqual(mxfp4.decode(*mxfp4.encode(row))[0, 0].item(), 8)

    def test_a_zero_group_stays_zero(self):
        self.assertTrue(torch.equal(mxfp4.decode(*mxfp4.encode(torch.zeros(2, 32))), torch.zeros(2, 32)))

    def test_refuses_a_nan_scale(self):
        with self.assertRaises(ValueError):
            mxfp4.decode(torch.zeros(1, 16, dtype=torch.uint8), torch.tensor([[255]], dtype=torch.uint8))


class Mla(unittest.TestCase):
    def test_the_fused_kernel_equals_the_definition(self):
        torch.manual_seed(5)
        q, k, v = torch.randn(2, 3, 11, 12), torch.randn(2, 3, 11, 12), torch.randn(2, 3, 11, 9)
        torch.testing.assert_close(mla.attend_fused(q, k, v, 0.3), mla.attend(q, k, v, 0.3), rtol=1e-5, atol=1e-5)


class Checkpoint(unittest.TestCase):
    def saved(self, change=None):
        """A small model, and what a fresh one has after loading its files; `change` edits the tensors between."""
        model = small_model()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(model, folder, 40_000)
            self.assertGreater(len(list(Path(folder).glob("*.safetensors"))), 1)
            if change:
                change(Path(folder))
            return model, checkpoint.load(small_model(seed=2), folder)

    def test_what_is_saved_is_loaded(self):
        model, loaded = self.saved()
        for (name, before), after in zip(model.state_dict().items(), loaded.state_dict().values()):
            tolerance = 0.3 if checkpoint.is_expert_stack(name) else 0.004
            self.assertLessEqual(float((after - before).abs().max()), tolerance * float(before.abs().max()), name)

    def test_saving_twice_changes_nothing(self):
        _, loaded = self.saved()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(loaded, folder, 1 << 30)
            again = checkpoint.load(small_model(seed=3), folder)
        for a, b in zip(loaded.parameters(), again.parameters()):
            self.assertTrue(torch.equal(a, b))

    def test_refuses_a_missing_and_an_unknown_tensor(self):
        def rename(folder):
            index = json.loads((folder / checkpoint.INDEX).read_text())
            weight_map = index["weight_map"]
            weight_map["language_model.model.norm.scale"] = weight_map.pop("language_model.model.norm.weight")
            (folder / checkpoint.INDEX).write_text(json.dumps(index))

        def add(folder):
            index = json.loads((folder / checkpoint.INDEX).read_text())
            index["weight_map"]["language_model.model.layers.9.extra"] = "x"
            (folder / checkpoint.INDEX).write_text(json.dumps(index))

        for change, word in ((rename, "norm.weight' is missing"), (add, "layers.9.extra' belongs to no layer")):
            with self.assertRaisesRegex(checkpoint.CheckpointError, word):
                self.saved(change)

    def test_a_log_is_padded_with_zeros_only(self):
        padded = torch.tensor([1.0, 2, 3, 0, 0])
        self.assertEqual(checkpoint.live_a_log("a", padded, 3).tolist(), [1, 2, 3])
        for heads in (2, 6):
            with self.assertRaises(checkpoint.CheckpointError):
                checkpoint.live_a_log("a", padded, heads)


class ReadConfig(unittest.TestCase):
    def edited(self, edit):
        root = json.loads(json.dumps(SMALL))
        edit(root["text_config"])
        return root

    def test_layer_lists_are_one_based(self):
        config = config_from_dict(SMALL)
        self.assertEqual([config.is_kda(i) for i in range(4)], [True, True, False, False])

    def test_every_key_is_needed(self):
        for key in SMALL["text_config"]:
            with self.assertRaisesRegex(ConfigError, key):
                config_from_dict(self.edited(lambda text: text.pop(key)))
        for key in SMALL["text_config"]["linear_attn_config"]:
            with self.assertRaisesRegex(ConfigError, key):
                config_from_dict(self.edited(lambda text: text["linear_attn_config"].pop(key)))

    def test_refuses_another_model(self):
        with self.assertRaisesRegex(ConfigError, "num_expert_group is 2"):
            config_from_dict(self.edited(lambda text: text.update(num_expert_group=2)))
        with self.assertRaisesRegex(ConfigError, "each layer once"):
            config_from_dict(self.edited(lambda text: text["linear_attn_config"].update(kda_layers=[1, 2, 3])))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
