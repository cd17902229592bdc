"""Wrong lines that the tests must see: what is changed, which tests fail, what would break."""

from __future__ import annotations

from typing import NamedTuple

CORE = "tests/core/test_core.py::test_"
ACTING = "tests/test_acting.py::test_"
REPLAY = "tests/core/test_replay.py::test_"
CHANGES = "tests/core/test_changepoint.py::test_"
FRACTIONS = "tests/contexts/test_fractions.py::test_"
COLUMNS = "tests/contexts/test_columns.py::test_"
COPIES = "tests/contexts/test_copies.py::test_"
LEARNED = "tests/study/test_learned.py::test_"
SUGGEST = "tests/study/test_suggest.py::test_"
PAPER_TABLES = "tests/study/test_paper_tables.py::test_"
STUDIES = "tests/study/test_studies.py::test_"
OOD_VS_CPD = "tests/study/test_ood_vs_cpd.py::test_"
JOBS = "tests/contexts/test_workloads.py::test_"
JOBS_BY_TIME = f"{JOBS}poisson_jobs_follow_rate_and_size_over_time"
OTHER_JOBS = f"{JOBS}seeds_and_passes_have_other_jobs[poisson]"
CLIENTS = f"{JOBS}clients_keep_their_counts_bursts_and_sizes"
RULES = "tests/agents/test_update_rules.py::test_"
ON_POLICY = "tests/agents/test_on_policy.py::test_"
ANCHORS = "tests/agents/test_anchors.py::test_"
GUARD = "tests/agents/test_guard.py::test_"
DEPLOY = "tests/deploy/test_operations.py::test_"
PLUS = "tests/agents/test_lcpo_plus.py::test_"
BFDQN = "tests/agents/test_bfdqn.py::test_"
PT_DQN = "tests/agents/test_pt_dqn.py::test_"
PT_PASS = f"{PT_DQN}updates_against_a_slow_reference[adam]"
EWC = "tests/agents/test_online_ewc.py::test_"
OGD = "tests/agents/test_sliding_ogd.py::test_"
CLEAR = "tests/agents/test_clear.py::test_"
MBPO = "tests/agents/test_mbpo.py::test_"
MBCD = "tests/agents/test_mbcd.py::test_"
BLOCKS = "tests/core/test_blocks.py::test_who_draws_draws_from_his_own"
MODELS = "tests/golden/test_golden_models.py::test_"
OFF_POLICY = "tests/agents/test_off_policy.py::test_"
HEDGING = "tests/agents/test_hedging.py::test_"
TABULAR_Q = "tests/agents/test_tabular_q.py::test_"
DEFAULT = "tests/agents/test_hyperparameters.py::test_every_default"
GOLDEN = "tests/golden/test_golden.py::test_"
PLANAR = "tests/envs/test_planar.py::test_"
PHYSICS = "tests/run/test_physics.py::test_"
GOLDEN_MUJOCO = "tests/golden/test_golden_mujoco.py::test_"
PLAYED = "tests/run/test_host.py::test_agents_learn_from_what_was_played_and_hear_what_was_read"
PAGE = "tests/study/test_html.py::test_"
TABLES = "tests/study/test_tables.py::test_"
IMPORTS = "tests/study/test_import_results.py::test_"
OUTPUTS = "tests/study/test_outputs.py::test_"
LATENCY = "tests/study/test_latency.py::test_"
OVER_TASKS = "tests/study/test_stats_over_tasks.py::test_"
STRAGGLER_STUDY = "tests/study/test_straggler_study.py::test_"
STRAGGLER = "tests/envs/test_straggler.py::test_"
PROXY_VIEW = "tests/envs/test_straggler_proxy.py::test_"
GOLDEN_STRAGGLER = "tests/golden/test_golden_straggler.py::test_windows_are_the_published_ones"
GOLDEN_OFF = "tests/golden/test_golden_off_policy.py::test_"
CHAIN = f"{GOLDEN_OFF}the_chain_behind_the_weights[bf_chain_0]"
HISTORY = "tests/envs/test_history.py::test_"
LEARNER = "tests/live/test_learner.py::test_"
LIVE_LOG = "tests/live/test_log.py::test_"
LIMITS = "tests/live/test_live_guard.py::test_"
SWITCHBACK = "tests/live/test_switchback.py::test_"
VERSIONS = "tests/live/test_versions.py::test_"
LIVE = "tests/live/test_service.py::test_"
SERVE = "tests/serve/test_app.py::test_"
SERVE_CLIENT = "tests/serve/test_client.py::test_"
STREAMS = "tests/live/test_streams.py::test_"
POLICY = "tests/test_policy.py::test_"
LOOP = f"{CORE}advantages_and_returns_against_a_loop[plain]"
CONTEXTS = "tests/contexts/test_contexts.py::test_"
PINNED = f"{CONTEXTS}the_drawn_traces_of_the_studies_are_pinned"
PHASES = f"{CONTEXTS}sinusoids_have_drawn_phases"
OVER_TRACES = "tests/study/test_over_traces.py::test_"
GAINS = "tests/study/test_drawn.py::test_gains_are_over_traces_in_each_window"
ROUNDS = f"{ANCHORS}a_batch_of_anchors_is_wanted_from_so_many_draws_each"
TUNE_PARTS = "tests/study/test_tune_parts.py::test_"
TUNING = "tests/test_tuning.py::test_"
WEIGHTS = (
    "tests/core/test_nets.py::test_fresh_weights_are_uniform_and_as_small_as_a_layer_has_inputs"
)
CODE = "update_lcpo_first_d1"
"""The golden case of LCPO that is quickest to run."""


class Mutant(NamedTuple):
    """`text`, which stands once in `file`, becomes `replacement`; `tests` must then fail."""

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    breaks: str

    def apply(self, source: str) -> str:
        """The source with the change; a text that is not there exactly once is an error."""
        count = source.count(self.text)
        if count != 1:
            raise ValueError(f"{self.name}: {self.file} has {self.text!r} {count} times, not once")
        return source.replace(self.text, self.replacement)


MUTANTS = (
    # Returns and advantages.
    Mutant(
        "bootstrap-at-termination", "lcpo/core/returns.py",
        "delta = reward + discount * alive * next_value - value",
        "delta = reward + discount * next_value - value",
        (LOOP,), "advantages count a future that a terminated step does not have",
    ),
    Mutant(
        "no-lambda", "lcpo/core/returns.py",
        "_backward(discount * lam * alive * (1.0 - truncated), delta)",
        "_backward(discount * alive * (1.0 - truncated), delta)",
        (LOOP,), "advantages ignore lambda",
    ),
    Mutant(
        "advantages-cross-truncation", "lcpo/core/returns.py",
        "_backward(discount * lam * alive * (1.0 - truncated), delta)",
        "_backward(discount * lam * alive, delta)",
        (LOOP,), "advantages run on into the next episode",
    ),
    Mutant(
        "returns-cross-truncation", "lcpo/core/returns.py",
        "cut = jnp.maximum(truncated, last)", "cut = last * jnp.ones_like(truncated)",
        (LOOP,), "value targets run on into the next episode",
    ),
    Mutant(
        "no-bootstrap-at-the-end", "lcpo/core/returns.py",
        "cut = jnp.maximum(truncated, last)", "cut = truncated",
        (LOOP,), "the last step of a batch counts as the end of all",
    ),
    Mutant(
        "targets-bootstrap-at-termination", "lcpo/core/returns.py",
        "return reward + discount * (1.0 - terminated) * next_value",
        "return reward + discount * next_value",
        (f"{GOLDEN_OFF}ddqn_update[update_ddqn_0]",), "Q-learning values states after the end",
    ),
    Mutant(
        "running-return-late-reset", "lcpo/core/returns.py",
        "jnp.concatenate([jnp.ones_like(reward[:1]), alive[:-1]])",
        "jnp.concatenate([alive[:-1], jnp.ones_like(reward[:1])])",
        (f"{GOLDEN}return_statistics[ret_norm_0]",), "running returns reset one step early",
    ),
    Mutant(
        "running-return-carried-past-an-end", "lcpo/core/returns.py",
        "return total, total[-1] * alive[-1]", "return total, total[-1]",
        (f"{RULES}rewards_are_scaled_by_returns_that_include_the_batch",),
        "an episode's return goes on in the next batch though the episode is over",
    ),
    # Scales.
    Mutant(
        "one-value-step-whatever-was-asked", "lcpo/agents/on_policy.py",
        "more = config.value_steps - 1", "more = 0",
        (f"{ON_POLICY}more_value_steps_fit_the_batch_better",), "value_steps does nothing",
    ),
    Mutant(
        "scale-before-the-batch", "lcpo/agents/on_policy.py",
        "    state = follow_returns(config, state, batch)\n"
        "    reward = batch.reward * common.reward_scale(config, state.return_stats)\n",
        "    reward = batch.reward * common.reward_scale(config, state.return_stats)\n"
        "    state = follow_returns(config, state, batch)\n",
        (f"{RULES}rewards_are_scaled_by_returns_that_include_the_batch",),
        "a batch's rewards are scaled by the returns before it",
    ),
    Mutant(
        "running-return-through-truncation", "lcpo/agents/on_policy.py",
        "ended = (batch.terminated | batch.truncated)", "ended = batch.terminated",
        (f"{RULES}rewards_are_scaled_by_returns_that_include_the_batch",),
        "running returns are not reset where an episode is cut",
    ),
    Mutant(
        "moments-without-the-shift", "lcpo/core/stats.py",
        "spread + delta**2 * share * (1.0 - share)", "spread",
        (f"{CORE}running_moments_equal_those_of_all_values",),
        "the variance misses how far the means of batches are apart",
    ),
    Mutant(
        "target-scale-after-the-batch", "lcpo/agents/ddqn.py",
        "    y = target(config, spec, learner, data)\n    network",
        "    y = target(config, spec, learner, data)\n"
        "    early = stats.moments_add(learner.target_stats, y)\n"
        "    y = target(config, spec, learner._replace(target_stats=early), data)\n    network",
        (f"{OFF_POLICY}rewards_are_scaled_by_the_targets_before_them",),
        "targets are scaled by a variance that they are part of",
    ),
    # Entropy.
    Mutant(
        "entropy-of-the-old-policy", "lcpo/agents/on_policy.py",
        "entropy = jnp.mean(spec.actions.entropy(new))",
        "entropy = jnp.mean(spec.actions.entropy(gradient.old))",
        (f"{RULES}entropy_is_tuned_by_the_new_policy",),
        "the coefficient is tuned by the policy before its step",
    ),
    Mutant(
        "sac-entropy-of-successors", "lcpo/agents/sac.py",
        "finish(config, spec, learner, data.obs, y)",
        "finish(config, spec, learner, data.next_obs, y)",
        (f"{RULES}sacs_entropy_is_that_of_the_states_it_learned_from",),
        "SAC's coefficient is tuned on other states than its policy",
    ),
    Mutant(
        "entropy-target-of-one-dimension", "lcpo/distributions.py",
        "sum(np.log(n) for n in counts)", "sum(np.log(n) for n in counts[:1])",
        (f"{RULES}the_target_entropy_is_a_share_of_the_largest",),
        "the target entropy forgets that dimensions add up",
    ),
    Mutant(
        "entropy-tuned-the-wrong-way", "lcpo/core/optim.py",
        "tuner.coefficient(base) * (entropy - target)",
        "tuner.coefficient(base) * (target - entropy)",
        (f"{GOLDEN}entropy_coefficient[entropy_tune_0]",),
        "too little entropy lowers the coefficient",
    ),
    Mutant(
        "entropy-penalty", "lcpo/agents/on_policy.py",
        "gain + bonus.of(actions.entropy(old))", "gain - bonus.of(actions.entropy(old))",
        (f"{GOLDEN}lcpo_step_by_step[{CODE}]",), "the entropy bonus is a penalty",
    ),
    # Optimisers and networks.
    Mutant(
        "no-clipping", "lcpo/core/optim.py",
        "return jax.tree.map(lambda g: g * scale, updates), state", "return updates, state",
        (f"{CORE}clipping_and_l2_enter_adam",), "gradients of any size reach Adam",
    ),
    Mutant(
        "target-network-does-not-lag", "lcpo/agents/ddqn.py",
        "following = optim.polyak(learner.target, q, config.target_rate)", "following = q",
        (f"{GOLDEN_OFF}ddqn_update[update_ddqn_0]",), "DDQN's target is the network itself",
    ),
    Mutant(
        "polyak-of-the-old-network", "lcpo/agents/ddqn.py",
        "following = optim.polyak(learner.target, q, config.target_rate)",
        "following = optim.polyak(learner.target, learner.q, config.target_rate)",
        (f"{GOLDEN_OFF}ddqn_update[update_ddqn_0]",), "DDQN's target follows one step late",
    ),
    Mutant(
        "single-q", "lcpo/agents/ddqn.py",
        "best = jnp.argmax(network.apply(learner.q, data.next_obs), axis=-1)",
        "best = jnp.argmax(network.apply(learner.target, data.next_obs), axis=-1)",
        (f"{GOLDEN_OFF}ddqn_update[update_ddqn_0]",), "the target network judges its own choice",
    ),
    Mutant(
        "gradient-through-the-target", "lcpo/agents/ddqn.py",
        "return jnp.mean((value - target) ** 2), value",
        "return jnp.mean((value - target) * jax.lax.stop_gradient(value - target)), value",
        (f"{GOLDEN_OFF}ddqn_update[update_ddqn_0]",), "half of the gradient of the loss is lost",
    ),
    Mutant(
        "larger-critic", "lcpo/agents/sac.py",
        "return jnp.minimum(one, other)", "return jnp.maximum(one, other)",
        (f"{GOLDEN_OFF}sac_update[update_sac_0]",), "SAC believes the more hopeful critic",
    ),
    Mutant(
        "twins-start-alike", "lcpo/agents/sac.py",
        "critics = (pair[0], pair[1])", "critics = (pair[0], pair[0])",
        (f"{RULES}twin_critics_start_apart",), "SAC's two critics are one",
    ),
    # Trust region.
    Mutant(
        "kl-of-the-new-policy", "lcpo/distributions.py",
        "return jnp.sum(jnp.exp(old) * (old - new), axis=(-2, -1))",
        "return jnp.sum(jnp.exp(new) * (new - old), axis=(-2, -1))",
        (f"{GOLDEN}policy[policy_grid]",), "KL(new || old) is taken for KL(old || new)",
    ),
    Mutant(
        "limits-of-kl-new-old", "lcpo/core/trust_region.py",
        "kls = jnp.split(actions.kl(old, new), ends)",
        "kls = jnp.split(actions.kl(new, old), ends)",
        (f"{RULES}the_line_search_measures_kl_from_the_old_policy",),
        "the line search measures KL(new || old)",
    ),
    Mutant(
        "fisher-without-the-mean", "lcpo/distributions.py",
        "return weighted - p * weighted.sum(-1, keepdims=True)", "return weighted",
        (f"{CORE}fisher_product_is_the_hessian_of_the_kl",), "the Fisher matrix misses - p p'",
    ),
    Mutant(
        "too-little-damping", "lcpo/core/trust_region.py",
        "ravel_pytree(back)[0]) + damping * vector",
        "ravel_pytree(back)[0]) + 0.9 * damping * vector",
        (f"{GOLDEN}lcpo_step_by_step[{CODE}]",), "the curvature has less damping than it says",
    ),
    Mutant(
        "step-length-of-conjugate-gradient", "lcpo/core/trust_region.py",
        "alpha = jnp.where(unsolved, rr / jnp.dot(direction, curved), 0.0)",
        "alpha = jnp.where(unsolved, 0.99 * rr / jnp.dot(direction, curved), 0.0)",
        (f"{GOLDEN}lcpo_step_by_step[update_lcpo_backtrack_d2]",),
        "each step of conjugate gradient is a hundredth too short",
    ),
    Mutant(
        "half-the-step", "lcpo/core/trust_region.py",
        "jnp.sqrt(2.0 * limit / jnp.where(positive, quadratic, 1.0))",
        "jnp.sqrt(limit / jnp.where(positive, quadratic, 1.0))",
        (f"{CORE}the_constraint_is_tight_at_the_full_step",), "s'F s = limit, without the 1/2",
    ),
    Mutant(
        "conjugate-gradient-forgets", "lcpo/core/trust_region.py",
        "direction = residual + jnp.where(unsolved, rr_new / rr, 0.0) * direction",
        "direction = residual",
        (f"{CORE}conjugate_gradient_takes_fifteen_iterations",),
        "steepest descent in place of conjugate gradient",
    ),
    Mutant(
        "one-iteration-less", "lcpo/core/trust_region.py",
        "CG_ITERATIONS = 15", "CG_ITERATIONS = 14",
        (f"{CORE}conjugate_gradient_takes_fifteen_iterations",), "14 iterations, not 15",
    ),
    Mutant(
        "promise-does-not-shrink", "lcpo/core/trust_region.py",
        "(improvement > MIN_IMPROVEMENT_RATIO * fraction * predicted)",
        "(improvement > MIN_IMPROVEMENT_RATIO * predicted)",
        (f"{CORE}the_promise_shrinks_with_the_step",),
        "short steps are asked for the gain of a long one",
    ),
    Mutant(
        "any-improvement", "lcpo/core/trust_region.py",
        "& (improvement > MIN_IMPROVEMENT_RATIO * fraction * predicted)\n", "\n",
        (f"{CORE}a_tenth_of_what_was_promised_is_asked_for[0.09-0.0]",),
        "the line search accepts an improvement of any size",
    ),
    Mutant(
        "one-limit-is-enough", "lcpo/core/trust_region.py",
        "& jnp.all(kls <= limits)", "& jnp.any(kls <= limits)",
        (f"{CORE}line_search_halves_until_all_limits_hold",),
        "one of the constraints may be broken",
    ),
    Mutant(
        "limit-just-missed", "lcpo/core/trust_region.py",
        "& jnp.all(kls <= limits)", "& jnp.all(kls < limits)",
        (f"{CORE}a_limit_that_is_just_met_is_met_and_ten_fractions_are_tried",),
        "a limit that is just met counts as broken",
    ),
    Mutant(
        "one-trial-less", "lcpo/core/trust_region.py",
        "return ~accepted & (i < MAX_BACKTRACKS)", "return ~accepted & (i < MAX_BACKTRACKS - 1)",
        (f"{CORE}a_limit_that_is_just_met_is_met_and_ten_fractions_are_tried",),
        "the line search gives up one trial early",
    ),
    Mutant(
        "the-other-root", "lcpo/core/trust_region.py",
        "r = jnp.maximum((-b + root)", "r = jnp.minimum((-b + root)",
        (f"{CORE}doubly_constrained_step_against_a_dense_solve",),
        "the dual solution takes the smaller root",
    ),
    # LCPO.
    Mutant(
        "moments-move-while-anchored", "lcpo/agents/lcpo.py",
        "return new, state.policy_opt, (search",
        "return new, on_policy.adam_step(config, policy, state, gradient.grads)[1], (search",
        (f"{RULES}adams_moments_rest_while_steps_are_anchored",),
        "Adam's moments move in steps that are not Adam's",
    ),
    Mutant(
        "anchored-on-the-batch", "lcpo/agents/lcpo.py",
        "g, old = fisher(anchors.obs)", "g, old = fisher(data.obs)",
        (f"{RULES}lcpo_obeys_each_of_its_limits",), "curvature of the recent batch, not the past",
    ),
    Mutant(
        "recent-limit-for-anchors", "lcpo/agents/lcpo.py",
        "Limit(anchors.obs, old, config.c_anchor)",
        "Limit(anchors.obs, old, config.c_recent)",
        (f"{RULES}lcpo_obeys_each_of_its_limits",), "the past moves as far as the present",
    ),
    Mutant(
        "anchor-limit-for-recent", "lcpo/agents/lcpo.py",
        "Limit(data.obs, gradient.old, config.c_recent)",
        "Limit(data.obs, gradient.old, config.c_anchor)",
        (f"{RULES}lcpo_obeys_each_of_its_limits",), "the present is held as tightly as the past",
    ),
    Mutant(
        "adds-before-it-samples", "lcpo/agents/lcpo.py",
        "    if ADD_BEFORE_SAMPLE in config.faults:\n", "    if True:\n",
        (f"{ON_POLICY}add_before_sample[lcpo]",), "the recent batch is its own past",
    ),
    Mutant(
        "penalty-summed-over-dimensions", "lcpo/agents/lcpo_p.py",
        "return config.kappa * jnp.mean(kl) / spec.action_size",
        "return config.kappa * jnp.mean(kl)",
        (f"{RULES}lcpo_ps_penalty",), "LCPO-P's penalty grows with the action dimensions",
    ),
    Mutant(
        "penalty-of-kl-new-old", "lcpo/agents/lcpo_p.py",
        "kl = spec.actions.kl(old, policy.apply(params, obs))",
        "kl = spec.actions.kl(policy.apply(params, obs), old)",
        (f"{RULES}lcpo_ps_penalty",), "LCPO-P's penalty is KL(new || old)",
    ),
    # LCPO+.
    Mutant(
        "ratio-unbounded", "lcpo/agents/lcpo_plus.py",
        "rho = found * jnp.minimum(1.0, jnp.exp(log_ratio))", "rho = found * jnp.exp(log_ratio)",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "likely actions weigh more than once",
    ),
    Mutant(
        "ratio-without-mu", "lcpo/agents/lcpo_plus.py",
        "spec.actions.log_prob(pi, rows.action) - rows.log_mu",
        "spec.actions.log_prob(pi, rows.action)",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "pi in place of pi / mu",
    ),
    Mutant(
        "critic-rehearses-nothing", "lcpo/agents/lcpo_plus.py",
        "rho = found * jnp.minimum", "rho = jnp.minimum",
        (f"{PLUS}each_rehearsal_reaches_its_own_network",),
        "the critic learns from rows that were not found",
    ),
    Mutant(
        "actor-rehearses-nothing", "lcpo/agents/lcpo_plus.py",
        "target, found * rows.weight)", "target, rows.weight)",
        (f"{PLUS}targets_and_ratios_against_a_loop",),
        "the actor learns from rows that were not found",
    ),
    Mutant(
        "weights-not-rehearsed", "lcpo/agents/lcpo_plus.py",
        "target, found * rows.weight)", "target, found + 0.0 * rows.weight)",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "all rows weigh the same",
    ),
    Mutant(
        "past-rewards-unscaled", "lcpo/agents/lcpo_plus.py",
        "one_step(rows.reward * scale,", "one_step(rows.reward,",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "past rewards have another scale",
    ),
    Mutant(
        "past-steps-last-as-long", "lcpo/agents/lcpo_plus.py",
        "returns.discounts(config.gamma, rows.elapsed)",
        "returns.discounts(config.gamma, jnp.ones_like(rows.elapsed))",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "long steps are discounted as short ones",
    ),
    Mutant(
        "past-never-terminates", "lcpo/agents/lcpo_plus.py",
        "discount, rows.terminated)", "discount, 0.0 * rows.terminated)",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "a terminated step has a future",
    ),
    Mutant(
        "bootstraps-from-s", "lcpo/agents/lcpo_plus.py",
        "(rows.reward * scale, values[1],", "(rows.reward * scale, values[0],",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "V(s) in place of V(s')",
    ),
    Mutant(
        "past-advantage-uncorrected", "lcpo/agents/lcpo_plus.py",
        "rows.action, rho * error, target,", "rows.action, error, target,",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "the actor's past is off-policy",
    ),
    Mutant(
        "past-loss-uncorrected", "lcpo/agents/lcpo_plus.py",
        "jnp.mean(rho * error**2))", "jnp.mean(error**2))",
        (f"{PLUS}targets_and_ratios_against_a_loop",), "a metric leaves out rho",
    ),
    Mutant(
        "actor-weight-ignored", "lcpo/agents/lcpo_plus.py",
        "lambda g, p: g + config.w_pi * p", "lambda g, p: g + p",
        (f"{PLUS}both_gradients_against_a_loop",), "w_pi has no effect on the gradient",
    ),
    Mutant(
        "actor-needs-the-critic", "lcpo/agents/lcpo_plus.py",
        "jax.lax.cond(config.w_pi > 0.0,", "jax.lax.cond(config.w_v > 0.0,",
        (f"{PLUS}both_gradients_against_a_loop",), "the actor cannot rehearse alone",
    ),
    Mutant(
        "line-search-weighs-the-past-once", "lcpo/agents/lcpo_plus.py",
        "return config.w_pi * loss", "return loss",
        (f"{PLUS}both_gradients_against_a_loop",), "w_pi has no effect on the line search",
    ),
    Mutant(
        "line-search-blind-to-the-past", "lcpo/agents/lcpo_plus.py",
        "anchors, both, actor)", "anchors, both)",
        (f"{PLUS}both_gradients_against_a_loop",), "the line search sees the batch alone",
    ),
    Mutant(
        "actor-does-not-rehearse", "lcpo/agents/lcpo_plus.py",
        "anchors, both, actor)", "anchors, gradient, actor)",
        (f"{PLUS}both_gradients_against_a_loop",), "the gradient is that of the batch alone",
    ),
    Mutant(
        "critic-weight-ignored", "lcpo/agents/lcpo_plus.py",
        "return config.w_v * jnp.mean(lesson.rho * error**2)",
        "return jnp.mean(lesson.rho * error**2)",
        (f"{PLUS}both_gradients_against_a_loop",), "w_v has no effect",
    ),
    Mutant(
        "critic-uncorrected", "lcpo/agents/lcpo_plus.py",
        "return config.w_v * jnp.mean(lesson.rho * error**2)",
        "return config.w_v * jnp.mean(error**2)",
        (f"{PLUS}both_gradients_against_a_loop",), "the critic's past is off-policy",
    ),
    Mutant(
        "critic-does-not-rehearse", "lcpo/agents/lcpo_plus.py",
        "data, gradient, critic)", "data, gradient)",
        (f"{PLUS}both_gradients_against_a_loop",), "the critic learns from the batch alone",
    ),
    Mutant(
        "metrics-of-both-gradients", "lcpo/agents/lcpo_plus.py",
        "data, gradient, critic)", "data, both, critic)",
        (f"{PLUS}each_rehearsal_reaches_its_own_network",),
        "policy_loss and grad_norm are not those of the batch",
    ),
    Mutant(
        "limit-below-its-floor", "lcpo/agents/lcpo_plus.py",
        "jnp.maximum(config.c_anchor, config.c_0 /", "jnp.add(0.0 * config.c_anchor, config.c_0 /",
        (f"{PLUS}the_limit_alone_is_lcpo_with_that_limit",), "the limit falls to 0",
    ),
    Mutant(
        "limit-not-applied", "lcpo/agents/lcpo_plus.py",
        "config = dataclasses.replace(config, c_anchor=c_t)", "config = config",
        (f"{PLUS}the_limit_alone_is_lcpo_with_that_limit",), "steps ignore the limit's schedule",
    ),
    Mutant(
        "updates-not-counted", "lcpo/agents/lcpo_plus.py",
        "state.updates + 1, bound)", "state.updates, bound)",
        (f"{PLUS}the_limit_alone_is_lcpo_with_that_limit",), "the limit never shrinks",
    ),
    Mutant(
        "targets-unbounded", "lcpo/agents/lcpo_plus.py",
        "jnp.clip(target, -largest, largest)", "target",
        (f"{PLUS}targets_stay_within_twice_what_rewards_allow",), "the value function can diverge",
    ),
    Mutant(
        "bound-forgotten", "lcpo/agents/lcpo_plus.py",
        "jnp.maximum(state.bound, largest_value(config, batch))", "largest_value(config, batch)",
        (f"{PLUS}the_bound_is_the_largest_value_of_all_rewards_so_far",),
        "only rewards of the newest rollout bound the targets",
    ),
    Mutant(
        "no-entropy-floor", "lcpo/agents/lcpo_plus.py",
        "Bonus(self.entropy_coef, self.entropy_target * spec.actions.max_entropy)",
        "Bonus(self.entropy_coef)",
        (f"{PLUS}only_states_below_the_floor_get_a_bonus",), "all states get the bonus",
    ),
    Mutant(
        "guarded-steps-rehearsed", "lcpo/agents/lcpo_plus.py",
        "past.remember(memory, rows, keep, add_key, anchors)",
        "past.remember(memory, rows, None, add_key, anchors)",
        (f"{PLUS}rows_are_what_happened_and_how_likely_it_was",), "guarded steps are remembered",
    ),
    Mutant(
        "mu-is-the-new-policy", "lcpo/agents/lcpo_plus.py",
        "spec.actions.log_prob(gradient.old, data.action)",
        "spec.actions.log_prob(networks.policy.apply(learner.policy, data.obs), data.action)",
        (f"{PLUS}rows_are_what_happened_and_how_likely_it_was",),
        "log mu is that of the policy after the update",
    ),
    Mutant(
        "always-fifteen-iterations", "lcpo/agents/lcpo.py",
        "constrained_step(g, v, config.c_anchor, config.cg_iterations)",
        "constrained_step(g, v, config.c_anchor, 15)",
        (f"{PLUS}the_config_chooses_the_iterations[False]",), "cg_iterations has no effect",
    ),
    Mutant(
        "always-fifteen-dual-iterations", "lcpo/agents/lcpo.py",
        "v, *both, config.cg_iterations, published", "v, *both, 15, published",
        (f"{PLUS}the_config_chooses_the_iterations[True]",), "dual ignores cg_iterations",
    ),
    Mutant(
        "iterations-of-the-paper", "lcpo/core/trust_region.py",
        "(carry[0] < iterations)", "(carry[0] < CG_ITERATIONS)",
        (f"{CORE}conjugate_gradient_takes_fifteen_iterations[given1]",),
        "conjugate gradient ignores the number of iterations",
    ),
    # Anchors and their reservoir.
    Mutant(
        "sigma-not-squared", "lcpo/core/ood.py",
        "(distances(drawn) > jnp.square(sigma))", "(distances(drawn) > sigma)",
        (f"{CORE}anchors_are_the_first_ood_draws",), "sigma is compared with a squared distance",
    ),
    Mutant(
        "one-more-than-enough", "lcpo/core/ood.py",
        "kept, rank[-1] >= count", "kept, rank[-1] > count",
        (f"{CORE}enough_is_exactly_as_many_as_wanted",), "exactly enough anchors are refused",
    ),
    Mutant(
        "anchors-from-empty-slots", "lcpo/core/buffers.py",
        "jnp.maximum(filled, 1)", "reservoir.items.shape[0]",
        (f"{CORE}only_slots_that_hold_an_item_are_drawn",),
        "zeros are drawn as if they were states",
    ),
    Mutant(
        "reservoir-probability", "lcpo/core/buffers.py",
        "jax.random.randint(key, (batch,), 0, position + 1)",
        "jax.random.randint(key, (batch,), 0, position + 2)",
        (f"{CORE}the_later_of_two_items_in_one_slot_stays",),
        "the n-th item is kept with probability capacity / (n + 1)",
    ),
    Mutant(
        "reservoir-forgets-its-count", "lcpo/core/buffers.py",
        "return Reservoir(stored, reservoir.seen + total[-1])",
        "return Reservoir(stored, jnp.minimum(reservoir.seen + total[-1], capacity))",
        (f"{CORE}reservoir_is_a_uniform_sample_of_the_past",), "late items crowd out early ones",
    ),
    Mutant(
        "newest-lag-alone", "lcpo/core/ood.py",
        "return context.history(obs).mean(axis=-1)", "return context.history(obs)[..., 0]",
        (f"{GOLDEN}ood_l2[ood_pendulum_l2_0]",), "contexts are not averaged over their lags",
    ),
    Mutant(
        "row-sums-ignored", "lcpo/core/ood.py",
        "kept = jnp.where(varies.all(), varies, varies & (sums > 0.0))", "kept = varies",
        (f"{GOLDEN}ood_mahalanobis_full[ood_reacher_mahala_full_0]",),
        "the published rule keeps columns that it drops",
    ),
    Mutant(
        "constant-by-rounding", "lcpo/core/ood.py",
        "(recent.max(axis=0) > recent.min(axis=0)) & (recent.std", "(recent.std",
        (f"{CORE}a_constant_column_is_left_out_whatever_its_value[0.1]",),
        "a constant 0.1 counts as varying, because its mean is rounded",
    ),
    Mutant(
        "unsafe-anchors", "lcpo/core/buffers.py",
        "jnp.where(keep & (slot < capacity), slot, capacity)",
        "jnp.where(slot < capacity, slot, capacity)",
        (f"{ANCHORS}a_reservoir_passes_over_what_is_not_to_be_kept",),
        "states in which a guard acts become anchors",
    ),
    Mutant(
        "oldest-rollouts-stay", "lcpo/agents/anchors.py",
        "rollouts=rollouts[:-1])", "rollouts=rollouts[1:])",
        (f"{ANCHORS}the_newest_rollouts_count_as_recent[lcpo]",),
        "the first rollout counts as recent for ever",
    ),
    Mutant(
        "zeros-are-recent", "lcpo/agents/anchors.py",
        "older = jnp.where(memory.past.seen == 0, batch[None], memory.rollouts)",
        "older = memory.rollouts",
        (f"{ANCHORS}the_newest_rollouts_count_as_recent[lcpo]",),
        "before there are enough rollouts, zeros count as recent",
    ),
    # Steps that a guard took over.
    Mutant(
        "guard-unknown-to-values", "lcpo/agents/off_policy.py",
        "return jnp.where(spec.guard.holds(obs), total_q(q, forced), value)", "return value",
        (f"{GUARD}a_guarded_state_is_worth_what_the_guards_action_is[ddqn]",),
        "a guarded state is worth what the policy would do there",
    ),
    Mutant(
        "guard-by-the-state-before", "lcpo/agents/sac.py",
        "guarded_value(spec, data.next_obs, next_q", "guarded_value(spec, data.obs, next_q",
        (f"{GUARD}a_guarded_state_is_worth_what_the_guards_action_is[sac]",),
        "SAC asks the guard of s, not of s'",
    ),
    Mutant(
        "guard-not-imagined", "lcpo/agents/mbpo.py",
        "action=off_policy.guarded_action(spec, data.obs, action)", "action=action",
        (f"{GUARD}imagined_steps_obey_the_guard",), "MBPO imagines what is never done",
    ),
    Mutant(
        "clear-blames-the-guard", "lcpo/agents/clear.py",
        "ratio = jnp.where(both.weight > 0.0, ratio, 1.0)", "ratio = 1.0 * ratio",
        (f"{CLEAR}what_a_guard_did_is_no_evidence_of_the_policy",),
        "a guard's action counts as one that the old policy chose",
    ),
    # PPO.
    Mutant(
        "hopeful-clip", "lcpo/agents/ppo.py",
        "gain = jnp.minimum(ratio * data.advantage, near * data.advantage)",
        "gain = jnp.maximum(ratio * data.advantage, near * data.advantage)",
        (f"{ON_POLICY}clipped_loss",), "clipping rewards large ratios",
    ),
    Mutant(
        "stops-too-soon", "lcpo/agents/ppo.py",
        "near = kl <= STOP_FACTOR * config.max_kl", "near = kl <= config.max_kl",
        (f"{RULES}ppo_goes_on_until_the_kl_exceeds_one_and_a_half_times_its_limit",),
        "PPO stops at max_kl, not at 1.5 max_kl",
    ),
    # Weights, exploration, sampling.
    Mutant(
        "overridden-steps-count", "lcpo/agents/on_policy.py",
        "return -stats.weighted_mean(gain, data.weight), old", "return -jnp.mean(gain), old",
        (f"{RULES}steps_that_a_guard_overrode_do_not_reach_the_policy[gradient]",),
        "the policy learns from actions that it did not choose",
    ),
    Mutant(
        "overridden-steps-in-the-surrogate", "lcpo/agents/on_policy.py",
        "return -stats.weighted_mean(gain, data.weight)\n", "return -jnp.mean(gain)\n",
        (f"{RULES}steps_that_a_guard_overrode_do_not_reach_the_policy[surrogate]",),
        "the line search counts actions that the policy did not choose",
    ),
    Mutant(
        "overridden-steps-in-ppo", "lcpo/agents/ppo.py",
        "return -stats.weighted_mean(gain, data.weight)", "return -jnp.mean(gain)",
        (f"{RULES}steps_that_a_guard_overrode_do_not_reach_the_policy[clipped]",),
        "PPO learns from actions that it did not choose",
    ),
    Mutant(
        "draws-what-does-not-exist", "lcpo/distributions.py",
        "return jnp.minimum(jnp.sum(passed, axis=-1, dtype=jnp.int32), possible)",
        "return jnp.sum(passed, axis=-1, dtype=jnp.int32)",
        (f"{CORE}an_action_of_probability_zero_is_never_drawn",),
        "rounding lets an action be drawn that does not exist",
    ),
    Mutant(
        "strict-comparison", "lcpo/distributions.py",
        "passed = (cumulative <= uniform[..., None])", "passed = (cumulative < uniform[..., None])",
        (f"{CORE}an_action_of_probability_zero_is_never_drawn",),
        "u = 0 draws a first action of probability 0",
    ),
    Mutant(
        "epsilon-one-update-late", "lcpo/agents/ddqn.py",
        "after = (state.num_steps - config.random_steps + per_update)",
        "after = (state.num_steps - config.random_steps)",
        (f"{OFF_POLICY}epsilon_is_the_published_schedule",), "epsilon falls one update late",
    ),
    Mutant(
        "phases-without-a-limit", "lcpo/config.py",
        "min(found, round(most * fraction))", "found",
        (f"{FRACTIONS}phases_are_a_share_of_the_run_and_the_papers_at_its_steps",),
        "runs of the paper's length explore for longer than the paper's",
    ),
    Mutant(
        "guard-entry-scaled", "lcpo/agents/normalise.py",
        "scaled[spec.guard.entry] = False", "scaled[spec.guard.entry] = True",
        ("tests/agents/test_normalise.py::test_act_and_update_see_the_same_by_the_statistics_before",),
        "agents no longer know where a guard will act",
    ),
    Mutant(
        "successors-in-raw-units", "lcpo/agents/normalise.py",
        "next_obs=scale(rule, own, spec, state.moments, batch.next_obs)", "next_obs=batch.next_obs",
        ("tests/agents/test_normalise.py::test_act_and_update_see_the_same_by_the_statistics_before",),
        "targets are values of observations in other units",
    ),
    Mutant(
        "one-random-step-more", "lcpo/agents/sac.py",
        "num_steps >= config.random_steps", "num_steps > config.random_steps",
        (f"{RULES}sac_draws_from_its_policy_once_the_random_steps_are_over",),
        "SAC is random for one rollout more",
    ),
    Mutant(
        "old-rows-drawn", "lcpo/core/replay.py",
        "step = replay.added - live + drawn // spec.num_worlds",
        "step = drawn // spec.num_worlds",
        (f"{REPLAY}a_ring_keeps_the_newest",), "replay draws rows beyond its capacity",
    ),
    Mutant(
        "first-visit-counts-for-nothing", "lcpo/agents/tabular_q.py",
        "count = visits[here] + 1", "count = visits[here] + 2",
        (f"{TABULAR_Q}update_is_watkins_rule_in_the_order_of_time",), "rates fall one visit early",
    ),
    Mutant(
        "successors-remembered", "lcpo/agents/anchors.py",
        "batch.obs.reshape(-1, spec.obs_size)", "batch.next_obs.reshape(-1, spec.obs_size)",
        (f"{RULES}the_reservoir_holds_what_was_observed",), "the past holds s', not s",
    ),
    Mutant(
        "time-ignored", "lcpo/agents/on_policy.py",
        "truncated = batch.truncated.astype(jnp.float32)\n"
        "    discount = returns.discounts(config.gamma, batch.elapsed)",
        "truncated = batch.truncated.astype(jnp.float32)\n"
        "    discount = jnp.full_like(batch.elapsed, config.gamma)",
        (f"{RULES}a_step_of_length_two_is_discounted_twice",), "long steps are discounted as short",
    ),
    Mutant(
        "decayed-value-table", "lcpo/agents/on_policy.py",
        "value.adam(config.value_learning_rate", "optim.adam(config.value_learning_rate",
        (f"{RULES}rows_that_are_not_visited_stay_as_they_are",), "a table forgets what it skips",
    ),
    Mutant(
        "mean-q", "lcpo/agents/off_policy.py",
        "return jnp.sum(jnp.where(chosen, q, 0.0), axis=(-2, -1))",
        "return jnp.sum(jnp.where(chosen, q, 0.0), axis=-1).mean(-1)",
        (f"{RULES}values_are_summed_over_action_dimensions",), "Q is a mean over dimensions",
    ),
    Mutant(
        "mean-soft-value", "lcpo/agents/sac.py",
        "return jnp.sum(jnp.exp(log_p) * (q - coefficient * log_p), axis=(-2, -1))",
        "return jnp.sum(jnp.exp(log_p) * (q - coefficient * log_p), axis=-1).mean(-1)",
        (f"{RULES}values_are_summed_over_action_dimensions",),
        "SAC's value is a mean over dimensions",
    ),
    Mutant(
        "one-world-counts", "lcpo/agents/off_policy.py",
        "state.num_steps + batch.reward.size", "state.num_steps + batch.reward.shape[0]",
        (f"{RULES}every_world_counts_its_steps",), "many worlds explore for too long",
    ),
    Mutant(
        "one-world-in-epsilon", "lcpo/agents/ddqn.py",
        "per_update = config.rollout_length * spec.num_worlds",
        "per_update = config.rollout_length",
        (f"{RULES}every_world_counts_its_steps",), "epsilon falls late where worlds are many",
    ),
    Mutant(
        "keys-fold-in-nothing", "lcpo/core/random.py",
        "return _bits(_add_salt(data) + _mix(message.astype(np.uint32)), 32, (2,))",
        "return _bits(_add_salt(data), 32, (2,))",
        (f"{CORE}scan_keys_fold_in_what_they_are_given",), "all keys folded from one are the same",
    ),
    Mutant(
        "children-repeat-their-parent", "lcpo/core/random.py",
        "return _bits(_add_salt(data), 32, (*shape, 2))", "return _bits(data, 32, (*shape, 2))",
        (f"{CORE}a_keys_children_are_not_the_numbers_that_it_gives",),
        "a key's children are the numbers that it gives itself",
    ),
    # Environments.
    Mutant(
        "limit-without-margin", "lcpo/envs/planar/limits.py",
        "q - limit.low) - limit.margin", "q - limit.low)",
        (f"{PLANAR}one_step_in_float64[inverted-double-pendulum]",),
        "a compiled limit acts a margin too late",
    ),
    Mutant(
        "limit-too-stiff", "lcpo/envs/planar/limits.py",
        "time = max(time, 2.0 * timestep)", "time = max(time, timestep)",
        (f"{PLANAR}one_step_in_float64[inverted-pendulum]",),
        "a compiled limit is stiffer than MuJoCo allows for its time step",
    ),
    Mutant(
        "limits-ignore-each-other", "lcpo/envs/planar/limits.py",
        "coupling = sides[i] * sides[j] * response[i][j]", "coupling = 0.0 * response[i][j]",
        (f"{PLANAR}one_step_in_float64[inverted-pendulum]",),
        "two limits that act at once do not feel each other",
    ),
    Mutant(
        "coriolis-halved", "lcpo/envs/planar/equations.py",
        "twist = times(2.0, times(turn, v[i]))", "twist = times(turn, v[i])",
        (f"{PLANAR}a_slide_on_a_turning_link",), "half of a Coriolis force is missing",
    ),
    Mutant(
        "inertia-lost", "lcpo/envs/planar/equations.py",
        "entry = plus(entry, link.inertia)", "entry = plus(entry, 0.99 * link.inertia)",
        (f"{PLANAR}one_step_in_float32[inverted-pendulum]",),
        "compiled links turn a little too easily",
    ),
    Mutant(
        "last-stage-forgotten", "lcpo/envs/planar/rk4.py",
        "seen = Seen(pose, limit_force)", "seen = Seen(pose_of(mechanism, q), limit_force)",
        (f"{PLANAR}one_step_in_float64[inverted-double-pendulum]",),
        "rewards see the new state, not the stage that MuJoCo leaves",
    ),
    Mutant(
        "straight-code-ends-early", "lcpo/envs/planar/rk4.py",
        "weights[k], shares[k], k == 3)", "weights[k], shares[k], k == 2)",
        (f"{PLANAR}straight_code_computes_the_same_as_the_loop[reacher]",),
        "off the CPU a step of RK4 has three stages",
    ),
    Mutant(
        "stale-way", "lcpo/envs/mujoco/compiled.py",
        "return State(qpos, qvel, time, features[self._kept]), Step(",
        "return State(qpos, qvel, time, state.kept), Step(",
        (f"{PLANAR}episodes[reacher-True]",),
        "the compiled reacher's distance stays that of the first step",
    ),
    Mutant(
        "diverged-unnoticed", "lcpo/envs/mujoco/compiled.py",
        "diverged = ~(size < LARGEST)", "diverged = size > LARGEST",
        (f"{PLANAR}a_diverged_world_is_terminated[inverted-pendulum]",),
        "a compiled world goes on with what is not a number",
    ),
    Mutant(
        "old-runs-change-physics", "lcpo/run/plan/job.py",
        "return configs.make(cls, {**earlier_values(cls), **values})",
        "return configs.make(cls, values)",
        (f"{PHYSICS}a_stored_run_that_does_not_say_ran_in_mujoco",),
        "a run of an earlier version resumes with other physics",
    ),
    Mutant(
        "hopper-cost", "lcpo/envs/mujoco/tasks.py",
        "return speed + 1.0 - 1e-3 * np.vecdot(chosen, chosen)",
        "return speed + 1.0 - 1.01e-3 * np.vecdot(chosen, chosen)",
        (f"{GOLDEN_MUJOCO}one_step[env_hopper_strong]",), "the hopper's inputs cost 1 % too much",
    ),
    Mutant(
        "hopper-wind", "lcpo/envs/mujoco/tasks.py",
        "return chosen - wind[:, :1] * x + wind[:, 1:] * y",
        "return chosen - wind[:, :1] * x - wind[:, 1:] * y",
        (f"{GOLDEN_MUJOCO}one_step[env_hopper_strong]",), "the hopper's wind blows the other way",
    ),
    Mutant(
        "hedge-at-home", "lcpo/straggler/events.py",
        "queue = seen if s != other_than else 2**31", "queue = seen",
        (f"{STRAGGLER}copies_are_conserved_and_twins_are_apart[False]",),
        "a second copy may join the first one's server",
    ),
    Mutant(
        "stale-hedge", "lcpo/straggler/events.py",
        "if copy.kind & _WAITS:", "if copy.kind & 1024:",
        (f"{STRAGGLER}a_toy_cluster_does_the_same[True]",),
        "a request that cancellation sped up is hedged although it was answered",
    ),
    Mutant(
        "second-sizes", "lcpo/straggler/events.py",
        "if not (rules.future_sizes or rules.declared_sizes or copy.kind & _SECOND):",
        "if not (rules.future_sizes or rules.declared_sizes):",
        (f"{STRAGGLER}a_toy_cluster_does_the_same[False]",),
        "hedging changes what is observed of the workload",
    ),
    Mutant(
        "declared-slow-sizes", "lcpo/straggler/events.py",
        "w.sums[w.window, 3] += job.size", "w.sums[w.window, 3] += copy.service",
        (f"{PROXY_VIEW}sizes_are_those_that_arriving_requests_declare",),
        "a proxy knows beforehand which copies are slow",
    ),
    Mutant(
        "declared-and-served", "lcpo/straggler/events.py",
        "if not (rules.future_sizes or rules.declared_sizes or copy.kind & _SECOND):",
        "if not (rules.future_sizes or copy.kind & _SECOND):",
        (f"{PROXY_VIEW}actions_change_nothing_of_the_workload_that_is_seen",),
        "what a proxy sees of the workload depends on its actions",
    ),
    Mutant(
        "losers-for-good", "lcpo/straggler/events.py",
        "server.losers -= 1", "server.losers -= 0",
        (f"{PROXY_VIEW}losers_are_counted_until_they_are_done",),
        "a server seems to be empty because of losers that are done",
    ),
    Mutant(
        "losers-seen", "lcpo/straggler/worlds.py",
        "losers_unseen=task.balance == names.PROXY", "losers_unseen=False",
        (f"{PROXY_VIEW}a_proxy_that_resets_losers_balances_without_them",),
        "a proxy balances by copies that it cannot see",
    ),
    Mutant(
        "proxy-sees-everything", "lcpo/straggler/worlds.py",
        "declared_sizes=task.observe == names.PROXY", "declared_sizes=False",
        (f"{PROXY_VIEW}sizes_are_those_that_arriving_requests_declare",),
        "the option for what a proxy sees does nothing",
    ),
    Mutant(
        "early-safe", "lcpo/straggler/windows.py",
        "(w.unsafe and longest > SAFE)", "(w.unsafe and longest > UNSAFE)",
        (f"{GOLDEN_STRAGGLER}[straggler_trainwheels]",), "the safety rule ends too early",
    ),
    Mutant(
        "windows-without-drift", "lcpo/straggler/windows.py",
        "w.base += w.clock - w.began", "w.base = w.clock",
        (f"{STRAGGLER}late_windows_drift_as_published",), "late windows begin where they should",
    ),
    # Defaults.
    Mutant(
        "default-reward-var-offset", "lcpo/agents/common.py",
        "reward_var_offset: float = traced(1.0,", "reward_var_offset: float = traced(1e-8,",
        (DEFAULT,), "rewards are scaled as in the grid world, everywhere",
    ),
    Mutant(
        "default-max-grad-norm-on-policy", "lcpo/agents/on_policy.py",
        'with_default(common.Config, "max_grad_norm", 0.5)',
        'with_default(common.Config, "max_grad_norm", 1.0)',
        (DEFAULT,), "A2C's gradients are clipped at 1",
    ),
    Mutant(
        "default-max-grad-norm-off-policy", "lcpo/agents/common.py",
        "max_grad_norm: float = traced(1.0,", "max_grad_norm: float = traced(0.5,",
        (DEFAULT,), "DDQN's and SAC's gradients are clipped at 0.5",
    ),
    Mutant(
        "default-clip", "lcpo/agents/ppo.py",
        "clip: float = traced(0.2,", "clip: float = traced(0.3,",
        (DEFAULT,), "PPO's ratios count up to 1 +- 0.3",
    ),
    # CLEAR.
    Mutant(
        "vtrace-values-after-the-end", "lcpo/core/returns.py",
        "delta = rho * (reward + discount * alive * next_value - value)",
        "delta = rho * (reward + discount * next_value - value)",
        (f"{CORE}vtrace_against_a_loop",), "V-trace values what follows a termination",
    ),
    Mutant(
        "vtrace-crosses-truncation", "lcpo/core/returns.py",
        "goes_on = alive * (1.0 - truncated)", "goes_on = alive",
        (f"{CORE}vtrace_against_a_loop",), "V-trace runs on into the next episode",
    ),
    Mutant(
        "vtrace-one-limit", "lcpo/core/returns.py",
        "_backward(discount * c * goes_on, delta)", "_backward(discount * rho * goes_on, delta)",
        (f"{CORE}vtrace_against_a_loop",), "the limit of c is that of rho",
    ),
    Mutant(
        "vtrace-one-step-advantage", "lcpo/core/returns.py",
        "delta + rho * discount * goes_on * following", "delta",
        (f"{CORE}vtrace_against_a_loop",), "advantages look one step ahead only",
    ),
    Mutant(
        "clear-blocks-meet", "lcpo/agents/clear.py",
        "axis = 0 if BLOCKS_LEAK in config.faults else 1", "axis = 0",
        (f"{CLEAR}the_newest_block_is_on_policy_and_blocks_do_not_meet",),
        "returns of the newest block hold rewards of the past",
    ),
    Mutant(
        "clear-clones-the-present", "lcpo/agents/clear.py",
        "clone = stats.weighted_mean(actions.kl(data.mu, pi), data.is_past * data.weight)",
        "clone = jnp.mean(actions.kl(data.mu, pi))",
        (f"{CLEAR}losses_are_those_of_the_docstring",), "the newest block is cloned, too",
    ),
    Mutant(
        "clear-repels", "lcpo/agents/clear.py",
        "+ config.policy_clone_coef * clone", "- config.policy_clone_coef * clone",
        (f"{CLEAR}cloning_attracts_and_the_published_one_repels",),
        "what was done in the past becomes less likely",
    ),
    Mutant(
        "clear-keeps-the-new-policy", "lcpo/agents/clear.py",
        "return State(learner, memory),",
        "return State(learner, replay.replay_add(state.memory, spec, batch._replace("
        "extra=behaviour(networks, learner, batch.obs)))),",
        (f"{CLEAR}an_update_keeps_the_policy_that_acted_not_the_one_it_makes",),
        "ratios are taken to a policy that never acted",
    ),
    Mutant(
        "last-block-is-never-drawn", "lcpo/core/replay.py",
        "0, live - length + 1)", "0, jnp.maximum(live - length, 1))",
        (f"{REPLAY}blocks_are_consecutive_and_bring_what_was_kept_with_them",),
        "a block that ends with the newest step is never drawn",
    ),
    # BFDQN.
    Mutant(
        "chain-gate-on-both-flows", "lcpo/agents/bfdqn.py",
        "(gained - jnp.where(is_full, lost, 0.0))", "jnp.where(is_full, gained - lost, 0.0)",
        (CHAIN,), "a vessel is not filled before its time",
    ),
    Mutant(
        "chain-keeps-all", "lcpo/agents/bfdqn.py",
        "jnp.concatenate([chain[1:], jnp.zeros_like(chain[:1])])",
        "jnp.concatenate([chain[1:], chain[-1:]])",
        (f"{BFDQN}the_flows_keep_the_total_but_for_the_leak",), "the last vessel does not leak",
    ),
    Mutant(
        "chain-tubes-of-one-width", "lcpo/agents/bfdqn.py",
        "lost = flow / volume * (chain - behind)", "lost = flow * (chain - behind)",
        (CHAIN,), "deep vessels are as fast as the first",
    ),
    # PT-DQN.
    Mutant(
        "pt-dqn-acts-without-the-permanent", "lcpo/agents/pt_dqn.py",
        "network.apply(learner.permanent, obs) + network",
        "network",
        (f"{PT_DQN}values_are_the_sum_and_the_target_is_its_maximum",),
        "half of what is known plays no part",
    ),
    Mutant(
        "pt-dqn-drops-a-minibatch", "lcpo/agents/pt_dqn.py",
        "config.permanent_period // config.batch_size, 0)",
        "config.permanent_period // config.batch_size - 1, 0)",
        (PT_PASS,), "the newest transitions are not consolidated",
    ),
    Mutant(
        "pt-dqn-forgets-in-every-update", "lcpo/agents/pt_dqn.py",
        "kept = jnp.where(due, config.forget_factor, 1.0)", "kept = config.forget_factor",
        (PT_PASS,), "the transient network decays a hundred times too often",
    ),
    Mutant(
        "pt-dqn-shifted-rows", "lcpo/agents/pt_dqn.py",
        "first = state.num_steps - config.permanent_period +",
        "first = state.num_steps - config.permanent_period - 1 +",
        (PT_PASS,), "the pass reads a transition of before, and not the newest",
    ),
    # Change points.
    Mutant(
        "cusum-never-forgets", "lcpo/core/changepoint.py",
        "return jnp.maximum(0.0, score + evidence)", "return score + evidence",
        (f"{CHANGES}cusum_adds_up_evidence_and_forgets_the_rest",),
        "evidence of a long calm must be outweighed first",
    ),
    Mutant(
        "cpd-sigmas-not-squared", "lcpo/core/changepoint.py",
        "ratio - jnp.square(self.sigmas)", "ratio - self.sigmas",
        (f"{CHANGES}a_jump_is_found_after_as_many_steps_as_its_size_says",),
        "deviations of less than `sigmas` count as evidence",
    ),
    Mutant(
        "cpd-warms-up-longer", "lcpo/core/changepoint.py",
        "state.num_seen >= self.min_samples", "state.num_seen > self.min_samples",
        (f"{CHANGES}a_jump_is_found_after_as_many_steps_as_its_size_says",),
        "the first number after the warm-up is not scored",
    ),
    Mutant(
        "cpd-keeps-old-moments", "lcpo/core/changepoint.py",
        "fresh = self.init(state.num_seen.shape)",
        "fresh = state._replace(score=jnp.zeros_like(state.score))",
        (f"{CHANGES}all_starts_anew_after_a_change",),
        "after a change numbers are compared with those before it",
    ),
    Mutant(
        "cpd-drops-what-rounding-left", "lcpo/core/changepoint.py",
        "return Sum(value, (self.value - (value - added)) + (change - added))",
        "return Sum(value, jnp.zeros_like(value))",
        (f"{CHANGES}float32_agrees_with_a_loop_in_float64",),
        "means of very many numbers stop moving",
    ),
    Mutant(
        "cpd-divides-zero-by-zero", "lcpo/core/changepoint.py",
        "jnp.where(gap == 0.0, 0.0, jnp.square(gap) / state.var.value)",
        "jnp.square(gap) / state.var.value",
        (f"{CHANGES}a_stream_that_never_varied_changes_with_the_first_other_number",),
        "a constant stream makes the score NaN, for good",
    ),
    Mutant(
        "ood-of-the-future", "lcpo/study/paper/ood_vs_cpd.py",
        "(far & before).sum(axis=1)", "far.sum(axis=1)",
        (f"{OOD_VS_CPD}jumps_are_counted_and_distances_compared",),
        "what comes later counts as past",
    ),
    Mutant(
        "draws-all-alike", "lcpo/contexts/paper.py",
        "np.random.default_rng([number, draw])", "np.random.default_rng(number)",
        (f"{OOD_VS_CPD}draws_share_the_digitised_points_and_nothing_else",),
        "a finding seems not to depend on the fine noise",
    ),
    Mutant(
        "no-runs-no-report", "lcpo/cli/reproduce.py",
        "if self.jobs and not any(", "if not any(",
        (f"{OOD_VS_CPD}a_study_without_runs_is_reproduced",),
        "a study that trains nothing shows nothing",
    ),
    Mutant(
        "no-runs-no-versions", "lcpo/study/report/output.py",
        "[result.provenance for result in results] or [provenance()]",
        "[result.provenance for result in results]",
        (f"{OOD_VS_CPD}a_study_without_runs_is_reproduced",),
        "nobody knows what made a report without runs",
    ),
    # Online EWC and sliding OGD.
    Mutant(
        "fisher-squares-the-mean", "lcpo/agents/online_ewc.py",
        "return Layer(product / len(a), jnp.mean(d, axis=0))",
        "return Layer(product / len(a), jnp.mean(delta, axis=0) ** 2)",
        ("tests/core/test_fisher.py::test_mean_squares_are_those_of_single_samples[mlp]",),
        "samples with gradients of unlike signs look unimportant",
    ),
    Mutant(
        "ewc-starts-from-nothing", "lcpo/agents/online_ewc.py",
        "rate = jnp.where(past.num_updates == 0, 1.0, config.averaging_rate)",
        "rate = config.averaging_rate",
        (f"{EWC}the_first_step_is_taken_whole_and_then_averages_follow",),
        "the past is next to zero for millions of steps, and weights are pulled there",
    ),
    Mutant(
        "ewc-frees-the-second-critic", "lcpo/agents/online_ewc.py",
        "return alpha, alpha, 0.0 if FREE_CRITIC in config.faults else alpha",
        "return alpha, alpha, 0.0",
        (f"{EWC}which_networks_are_held[all]",), "one of two critics has no penalty",
    ),
    Mutant(
        "ewc-pushes-away", "lcpo/agents/online_ewc.py",
        "gradient + coefficient * importance", "gradient - coefficient * importance",
        (f"{EWC}which_networks_are_held[all]",), "weights are driven off their past",
    ),
    Mutant(
        "ewc-importance-before-the-step", "lcpo/agents/online_ewc.py",
        "    learner, y, metrics = sac.descend(config, spec, learner, data)\n"
        "    learner = follow(config, learner, importances(config, spec, learner,",
        "    old = learner\n    learner, y, metrics = sac.descend(config, spec, learner, data)\n"
        "    learner = follow(config, learner, importances(config, spec, old,",
        (f"{GOLDEN_OFF}online_ewc_update[update_ewc_0]",),
        "importances are those of the networks before the step",
    ),
    Mutant(
        "ewc-sums-of-a-chunk", "lcpo/agents/online_ewc.py",
        "return (total, squares), None", "return (carry[0], squares), None",
        (f"{EWC}the_fault_squares_running_sums_of_gradients",),
        "the fault's running sums start anew after every 8 samples",
    ),
    Mutant(
        "ewc-same-actions-in-every-step", "lcpo/agents/online_ewc.py",
        "uniform = jax.random.uniform(jax.random.fold_in(key, 1), shape)",
        "uniform = jnp.tile(jax.random.uniform(jax.random.fold_in(key, 1), (1, *shape[1:])), "
        "(shape[0], 1, 1))",
        (f"{EWC}every_gradient_step_draws_actions_of_its_own",),
        "all gradient steps of an update share their random numbers",
    ),
    Mutant(
        "ogd-projects-once", "lcpo/agents/sliding_ogd.py",
        "for _ in range(2):", "for _ in range(1):",
        (f"{OGD}directions_stay_orthonormal_where_little_of_each_gradient_is_left",),
        "rounding grows from direction to direction until none is orthogonal",
    ),
    Mutant(
        "ogd-drops-the-newest", "lcpo/agents/sliding_ogd.py",
        "oldest = state.num_stored % len(state.rows)",
        "oldest = jnp.minimum(state.num_stored, len(state.rows) - 1)",
        (f"{OGD}steps_are_orthogonal_to_the_last_ones_and_the_oldest_gives_way",),
        "the first directions are kept for ever",
    ),
    Mutant(
        "ogd-climbs", "lcpo/agents/sliding_ogd.py",
        "rate = rate if ASCENT in config.faults else -rate", "rate = rate",
        (f"{OGD}steps_go_down_the_loss_and_with_the_fault_up",), "steps go up the loss",
    ),
    Mutant(
        "ogd-steps-along-rounding", "lcpo/agents/sliding_ogd.py",
        "VANISHED = 1e-5", "VANISHED = 0.0",
        (f"{OGD}where_nothing_is_left_there_is_no_step[in the span]",),
        "rounding errors become steps of full length",
    ),
    Mutant(
        "ogd-directions-in-the-policy", "lcpo/agents/sliding_ogd.py",
        "    learner = learner._replace(policy_opt=(), critic_opts=((), ()))\n", "",
        (f"{OGD}directions_stand_in_the_memory_and_are_counted",),
        "every saved policy has 70 MB of directions",
    ),
    # MBPO.
    Mutant(
        "mbpo-terminates-where-cut", "lcpo/agents/mbpo.py",
        "next_obs=next_obs, extra=seen)",
        "next_obs=next_obs, terminated=data.truncated, extra=seen)",
        (f"{MBPO}imagined_steps_start_where_real_ones_did_and_end_as_they_did",),
        "imagined steps do not end where the real ones did",
    ),
    Mutant(
        "mbpo-entropy-of-imagined-states", "lcpo/agents/mbpo.py",
        "finish(config, spec, learner, data.obs, y)", "finish(config, spec, learner, drawn.obs, y)",
        (f"{MBPO}the_second_replay_closes_and_entropy_is_that_of_real_states",),
        "MBPO tunes its entropy on the states of its second replay",
    ),
    Mutant(
        "mbpo-forgets-age", "lcpo/agents/mbpo.py",
        "seen = (step * spec.num_worlds)", "seen = (0 * step)",
        (f"{MBPO}imagined_steps_start_where_real_ones_did_and_end_as_they_did",),
        "the age of what SAC learns from is wrong",
    ),
    Mutant(
        "ideal-mbpo-old-wind", "lcpo/agents/ideal_mbpo.py",
        "wind = spec.context.newest(data.next_obs)", "wind = spec.context.newest(data.obs)",
        (f"{MBPO}the_true_dynamics_are_the_environment_s",),
        "the true dynamics take the wind of the step before",
    ),
    Mutant(
        "imagine-without-noise", "lcpo/core/dynamics.py",
        "y = normal.mean + jnp.sqrt(normal.var) * noise", "y = normal.mean + 0.0 * noise",
        ("tests/golden/test_golden_models.py::test_model[mbpo_model_0]",),
        "the model imagines its mean",
    ),
    Mutant(
        "model-error-of-the-context", "lcpo/agents/mbpo.py",
        "own = spec.context.remove(share[1:])", "own = spec.context.entries(share[1:])",
        (f"{MBPO}errors_of_the_model_are_shares_of_what_varied",),
        "the model is blamed for the wind",
    ),
    # MBCD, its replay and its models.
    Mutant(
        "blocks-forget-nothing", "lcpo/core/replay.py",
        "jnp.clip(forget - first, 0, blocks.size[before])", "jnp.int32(0)",
        (f"{BLOCKS}[None]",), "steps before a change stay in the old context",
    ),
    Mutant(
        "blocks-keep-the-oldest", "lcpo/core/replay.py",
        "count.at[after].set(0)", "count",
        (f"{BLOCKS}[None]",), "a rollout is drawn whose history is overwritten",
    ),
    Mutant(
        "blocks-draw-the-oldest", "lcpo/core/replay.py",
        "first = jnp.maximum(total - -(-newest // spec.num_worlds), 0)", "first = jnp.int32(0)",
        (f"{BLOCKS}[6]",), "`newest` is ignored",
    ),
    Mutant(
        "mbcd-sure-of-itself", "lcpo/agents/mbcd.py",
        "(seen.disagreement < config.max_disagreement) &", "",
        (f"{MBCD}nothing_is_scored_early_or_where_members_disagree",),
        "a model that has not settled calls changes",
    ),
    Mutant(
        "mbcd-early", "lcpo/agents/mbcd.py",
        "(steps > config.min_steps)", "(steps >= 0)",
        (f"{MBCD}nothing_is_scored_early_or_where_members_disagree",),
        "changes are called before there is a model",
    ),
    Mutant(
        "mbcd-scores-go-on", "lcpo/agents/mbcd.py",
        "is_open & ~found", "is_open",
        (f"{MBCD}a_change_is_found_when_the_score_exceeds_the_threshold",),
        "scores after a change decide where it leads",
    ),
    Mutant(
        "mbcd-always-one-more", "lcpo/agents/mbcd.py",
        "(state.num_models < config.max_models)", "(state.num_models <= config.max_models)",
        (f"{MBCD}where_a_change_leads",), "a context beyond the last gets the last one's networks",
    ),
    Mutant(
        "mbcd-drops-the-one-in-use", "lcpo/agents/mbcd.py",
        "best = jnp.where(jnp.any(met > 0.0), jnp.argmax(met), state.current)",
        "best = jnp.argmax(met)",
        (f"{MBCD}where_a_change_leads",), "where none fits, the first context is taken",
    ),
    Mutant(
        "mbcd-scores-kept", "lcpo/agents/mbcd.py",
        "scores=jnp.where(change.found, 0.0, change.scores)", "scores=change.scores",
        (f"{MBCD}a_new_context_gets_what_follows_the_change",),
        "a change is found again and again",
    ),
    Mutant(
        "mbcd-learns-at-a-change", "lcpo/agents/mbcd.py",
        "jnp.where(skip, old, new)", "new",
        (f"{MBCD}no_policy_learns_in_a_rollout_with_a_change_and_entropy_is_tuned_once",),
        "a policy is trained on what is left of a rollout",
    ),
    Mutant(
        "mbcd-trains-for-ever", "lcpo/agents/mbcd.py",
        "jnp.clip(due, change.found.astype(jnp.int32), config.max_trainings)", "due",
        (f"{MBCD}trainings_become_rare",), "an update may take ten times as long",
    ),
    Mutant(
        "mixture-without-disagreement", "lcpo/core/dynamics.py",
        "jnp.mean(jnp.square(each.mean) + each.var, axis=0) - jnp.square(mean)",
        "jnp.mean(each.var, axis=0)",
        (f"{MODELS}mbcd_finds_the_same_changes[mbcd_cusum_0]",),
        "members that disagree are as sure as members that agree",
    ),
    Mutant(
        "model-variance-cut-off", "lcpo/core/dynamics.py",
        "log_var = upper - jax.nn.softplus(upper - log_var)",
        "log_var = jnp.minimum(log_var, upper)",
        (f"{MODELS}model[mbpo_model_0]",), "a variance at its bound has no gradient",
    ),
    Mutant(
        "traces-all-alike", "lcpo/run/drive/compiled.py",
        "rows=rows[self.which]", "rows=rows[0 * self.which]",
        ("tests/run/test_run.py::test_vmapped_group_agrees_with_single_runs",),
        "all runs of a group see the first one's trace",
    ),
    # Workloads.
    Mutant(
        "jobs-alike-in-every-pass", "lcpo/straggler/workloads/drawn.py",
        "counter=[0, block, turn, 0]",
        "counter=[0, block, 0, 0]",
        (OTHER_JOBS,), "a workload is learnt by heart",
    ),
    Mutant(
        "jobs-alike-for-every-seed", "lcpo/straggler/workloads/drawn.py",
        "np.array([seed, kind], np.uint64)",
        "np.array([0, kind], np.uint64)",
        (OTHER_JOBS,), "intervals over seeds are too small",
    ),
    Mutant(
        "outage-takes-no-time", "lcpo/straggler/workloads/drawn.py",
        "ahead + (following - block) * self.block",
        "ahead + self.block",
        (JOBS_BY_TIME,), "blocks without jobs are left out",
    ),
    Mutant(
        "jobs-sized-as-at-the-start", "lcpo/straggler/workloads/drawn.py",
        "self.expected.size[cells][window]",
        "self.expected.size[window]",
        (JOBS_BY_TIME,), "sizes do not follow the time",
    ),
    Mutant(
        "jobs-larger-than-their-mean", "lcpo/straggler/workloads/drawn.py",
        "-0.5 * variance",
        "0.0 * variance",
        (JOBS_BY_TIME,), "the load is higher than it says",
    ),
    Mutant(
        "first-jobs-are-all", "lcpo/straggler/workloads/drawn.py",
        "share * total[-1]",
        "total[-1]",
        (f"{JOBS}means_of_the_first_jobs_and_of_all",), "scales foresee the whole workload",
    ),
    Mutant(
        "clients-end-on-the-edge", "lcpo/straggler/workloads/clients.py",
        "(share + rng.random()) % 1.0",
        "share % 1.0",
        (CLIENTS,), "arrivals pile up where windows meet",
    ),
    Mutant(
        "clients-lose-parts-of-jobs", "lcpo/straggler/workloads/clients.py",
        "np.floor(self.rows.jobs + rng.random(len(self.rows.jobs)))",
        "np.floor(self.rows.jobs)",
        (CLIENTS,), "small clients vanish when scaled",
    ),
    Mutant(
        "clients-miss-the-largest", "lcpo/straggler/workloads/clients.py",
        'upto[-1], count), "right"',
        'upto[-1], count), "left"',
        (CLIENTS,), "histograms are off by one",
    ),
    Mutant(
        "short-jobs-keep-all", "lcpo/straggler/workloads/base.py",
        "(arrivals - piece * stretch < PIECE)",
        "(arrivals - piece * stretch < stretch)",
        (f"{JOBS}short_given_jobs_are_whole_minutes_of_the_long_ones",),
        "a shortened workload is another one",
    ),
    Mutant(
        "jobs-of-size-zero", "lcpo/straggler/workloads/formats.py",
        "need(size > 0,",
        "need(size >= 0,",
        (f"{JOBS}bad_files_are_told",), "a file with sizes of 0 is taken",
    ),
    Mutant(
        "times-go-back", "lcpo/straggler/workloads/formats.py",
        "np.flatnonzero(gaps < 0)",
        "np.flatnonzero(gaps < -1e9)",
        (f"{JOBS}bad_files_are_told",), "nobody is told to sort the jobs",
    ),
    Mutant(
        "twin-without-fluctuation", "lcpo/straggler/workloads/paper.py",
        "np.exp(noise - 0.5 * std**2)",
        "np.exp(-0.5 * std**2 + 0 * noise)",
        (f"{JOBS}twins_follow_the_figure[1]",), "the line of the twin is too narrow",
    ),
    Mutant(
        "pen-does-not-fill", "lcpo/straggler/twins.py",
        "(windows(edge) + disc).max(1)",
        "(windows(edge) + disc).min(1)",
        ("tests/study/test_workload_study.py::test_a_pen_fills_narrow_valleys_and_keeps_peaks",),
        "widths of lines cannot be compared",
    ),
    # Rules for hedging.
    Mutant(
        "hedge-percentile", "lcpo/straggler/rules.py",
        "_shortest(spec, read, 1.0 - config.quantile)",
        "_shortest(spec, read, config.quantile)",
        (f"{HEDGING}the_percentile_is_rounded_up_to_a_timeout",),
        "the timeout is the 5th percentile: nearly all requests are hedged",
    ),
    Mutant(
        "hedge-without-budget", "lcpo/straggler/rules.py",
        "(read[\"share\"] <= config.budget) & ",
        "",
        (f"{HEDGING}hedges_are_held_to_the_budget",), "extra load has no limit",
    ),
    Mutant(
        "hedge-without-tokens", "lcpo/straggler/rules.py",
        "(tokens >= 1.0) & ",
        "",
        (f"{HEDGING}the_bucket_is_filled_by_requests_and_emptied_by_hedges",),
        "an empty bucket stops nothing",
    ),
    Mutant(
        "hedge-at-any-load", "lcpo/straggler/rules.py",
        "may = (row < len(config.loads)) & ",
        "may = ",
        (f"{HEDGING}the_table_goes_by_load_to_the_nearest_timeout",),
        "the table hedges where it must not",
    ),
    Mutant(
        "plan-of-the-hour-before", "lcpo/straggler/timeouts.py",
        "window // BUCKET - 2",
        "window // BUCKET - 3",
        ("tests/study/test_hedging_study.py::test_each_timeout_is_played_in_each_seed",),
        "latencies count for five minutes other than their own",
    ),
    Mutant(
        "chosen-not-played-host", "lcpo/run/drive/collect.py",
        "            batch.action[t] = step.action",
        "            pass",
        (PLAYED,), "agents learn from actions that a guard overrode",
    ),
    Mutant(
        "packed-beside-its-place", "lcpo/run/drive/rollout.py",
        "row = jnp.where(place == i, column, row)", "row = jnp.where(place == i + 1, column, row)",
        ("tests/run/test_compiled.py::test_a_scan_whose_rows_are_chosen_as_on_a_gpu_is_the_same_scan",),
        "a GPU's rollout mixes up the entries of a step",
    ),
    Mutant(
        "chosen-not-played-compiled", "lcpo/run/drive/rollout.py",
        "action = action if step.action is None else step.action",
        "action = action",
        (PLAYED,), "agents learn from actions that a guard overrode",
    ),
    Mutant(
        "means-of-readings", "lcpo/run/drive/base.py",
        "jnp.sum(batch.readings[..., i])",
        "jnp.mean(batch.readings[..., i])",
        (PLAYED,), "records hold means where sums are meant",
    ),
    Mutant(
        "buckets-at-their-closing", "lcpo/straggler/latency.py",
        'record["step"].astype(np.float64) - DELAY',
        'record["step"].astype(np.float64)',
        (f"{LATENCY}hours",), "latencies count for a later hour than theirs",
    ),
    Mutant(
        "better-for-an-hour", "lcpo/straggler/latency.py",
        "np.convolve(gain, np.ones(stretch), \"valid\")",
        "np.convolve(gain, np.ones(1), \"valid\")",
        (f"{LATENCY}hours_until_better_looks_at_whole_passes",),
        "one lucky hour counts as better than the best fixed timeout",
    ),
    # Scale, and the folders of studies.
    Mutant(
        "short-is-a-prefix", "lcpo/contexts/fractions.py",
        "np.arange(rows) * fraction.denominator // fraction.numerator", "np.arange(rows)",
        (f"{FRACTIONS}rows_are_taken_at_equal_spacing[3]",),
        "a short run sees the first context and no other",
    ),
    Mutant(
        "averages-slower-in-short-runs", "lcpo/agents/presets.py",
        "min(1.0, float(value / fraction))", "min(1.0, float(value * fraction))",
        (f"{FRACTIONS}what_counts_steps_is_shortened",),
        "online EWC averages over more than a short run",
    ),
    Mutant(
        "old-sweeps-lose-their-points", "lcpo/run/plan/job.py",
        'dict(point.split("=", 1) for point in points)', "{}",
        ("tests/run/test_job.py::test_a_name_is_made_of_fields",),
        "a sweep of an earlier version cannot be resumed",
    ),
    Mutant(
        "rows-of-a-file-that-has-changed", "lcpo/contexts/refs.py",
        "files.stamp(trace.source) if trace.is_file else None", "None",
        ("tests/contexts/test_refs.py::test_rows_are_shared_until_their_file_changes",),
        "a run goes on with rows of a file that was written anew",
    ),
    Mutant(
        "exploring-all-of-a-short-run", "lcpo/run/plan/plan.py",
        "config = shorten(config, fraction)", "config = shorten(config, WHOLE)",
        (f"{PAPER_TABLES}online_ewc_by_its_hyper_parameters",),
        "a short run is all random actions",
    ),
    Mutant(
        "warm-up-of-a-whole-run", "lcpo/study/measure/compare.py",
        "(trace.fraction if trace else 1)", "1",
        (f"{PAPER_TABLES}windy_stands_beside_the_paper_s",),
        "short runs are judged over other parts of the trace than long ones",
    ),
    Mutant(
        "scores-by-the-best-alone", "lcpo/study/paper/normalised.py",
        "low, span = min(means), max(means) - min(means)", "low, span = 0.0, max(means)",
        (f"{PAPER_TABLES}windy_stands_beside_the_paper_s",),
        "normalised returns are not the paper's",
    ),
    Mutant(
        "runs-of-another-version", "lcpo/study/folder.py",
        "if version != __version__:", "if False:",
        (f"{STUDIES}reproduce_runs_and_reports_a_study",),
        "a report mixes runs of several versions",
    ),
    Mutant(
        "folder-of-another-study", "lcpo/study/folder.py",
        "if there and jobs and not shared and not file.exists():", "if False:",
        (f"{STUDIES}reproduce_runs_and_reports_a_study",),
        "a study is put into the folder of another",
    ),
    Mutant(
        "tasks-never-drawn", "lcpo/study/measure/stats/bootstrap.py",
        "rng.integers(tasks, size=shape) if draw_tasks else all_tasks",
        "all_tasks",
        (f"{OVER_TASKS}resampled_variances",), "intervals over traces know of seeds only",
    ),
    Mutant(
        "runs-drawn-from-the-padding", "lcpo/study/measure/stats/bootstrap.py",
        "rng.integers(count, size=(*shape, runs))",
        "rng.integers(runs, size=(*shape, runs))",
        (f"{OVER_TASKS}resampled_variances",),
        "tasks with fewer seeds are resampled wrongly",
    ),
    Mutant(
        "rows-too-long-to-tell-when", "lcpo/run/drive/group.py",
        "record if member.setup.is_timed else records.shorten(record)",
        "records.shorten(record)",
        ("tests/run/test_run.py::test_only_runs_that_are_asked_when_keep_all_rows",),
        "what a context that came back was met with is lost in means over many updates",
    ),
    Mutant(
        "forgetting-of-another-context", "lcpo/study/measure/memory.py",
        "last.get(context, NAN) - first[visit]",
        "level[visit - 1] - first[visit]",
        ("tests/study/test_compare.py::test_forgetting_and_recovery",),
        "what was lost is measured against another context",
    ),
    Mutant(
        "cells-not-escaped", "lcpo/study/report/html_table.py",
        "inner = escape(cell.text)",
        "inner = cell.text",
        (f"{PAGE}what_files_say_is_text",), "a name in a file runs as a script in the page",
    ),
    Mutant(
        "policy-of-no-script", "lcpo/study/report/html.py",
        "script-src {_digest(script)}",
        "script-src 'unsafe-inline'",
        (f"{PAGE}committed_results_become_pages",), "any script in a page is allowed to run",
    ),
    Mutant(
        "intervals-do-not-overlap", "lcpo/study/report/html_table.py",
        "abs(gap) <= ours.half + theirs.half",
        "abs(gap) <= max(ours.half, theirs.half)",
        (f"{PAGE}differences_to_the_paper",), "numbers that agree are said to differ",
    ),
    Mutant(
        "digits-of-a-rounding-error", "lcpo/study/report/cells.py",
        "if 1e-9 * abs(mean) < half",
        "if 0.0 < half",
        ("tests/study/test_compare.py::test_plus_minus",),
        "equal runs are shown as -3.202676426 ± 0.000000000",
    ),
    Mutant(
        "difference-of-hidden-digits", "lcpo/study/report/cells.py",
        "known = None if math.isnan(half) else round(half, digits)",
        "known = None if math.isnan(half) else half",
        (f"{PAGE}differences_to_the_paper",), "the page contradicts the digits that it shows",
    ),
    Mutant(
        "metadata-not-folded", "lcpo/study/report/html.py",
        'return _folded("How this report was made", ', "return (",
        (f"{PAGE}results_come_first_and_say_what_they_are",), "metadata hides the results",
    ),
    Mutant(
        "page-without-warnings", "lcpo/study/report/output.py",
        '"warnings": list(warnings)', '"warnings": []',
        (f"{PAGE}warnings_stand_at_the_top",), "a smoke test looks like a result",
    ),
    Mutant(
        "smoke-without-warning", "lcpo/study/study.py",
        "if self.fraction <= SMOKE:", "if self.fraction < 0:",
        (f"{STUDIES}shortened_studies_warn",), "a smoke test looks like a result",
    ),
    Mutant(
        "long-names-in-one-line", "lcpo/study/report/html_table.py",
        'inner = BREAK.sub(r"\\1<wbr>", inner)', "pass",
        (f"{PAGE}results_come_first_and_say_what_they_are",), "a long name hides the numbers",
    ),
    Mutant(
        "long-names-not-wrapped", "lcpo/study/report/tables.py",
        "if len(lines[-1] + piece) > CELL_WIDTH:", "if False:",
        (f"{TABLES}a_narrow_terminal_wraps_names_and_leaves_out_the_last_columns",),
        "a long name leaves no room for numbers on a terminal",
    ),
    Mutant(
        "never-is-a-number", "lcpo/study/report/cells.py",
        'return "never" if math.isinf(value)', 'return "0" if math.isinf(value)',
        (f"{STUDIES}grid_world_report",), "an agent that never recovers looks fast",
    ),
    Mutant(
        "no-room-for-the-difference", "lcpo/study/report/report.py",
        "        (improvement, lambda row: row.improvement or UNKNOWN),\n", "",
        ("tests/test_comparison.py::test_quiet_and_narrow",),
        "a narrow terminal hides which agent is better",
    ),
    Mutant(
        "one-channel-in-all-strips", "lcpo/study/play/video.py",
        "(), contexts[:, [c]])", "(), contexts[:, [0]])",
        ("tests/study/test_evaluate.py::"
         "test_a_strip_for_each_channel_the_state_the_action_and_the_reward",),
        "a strip shows another channel than it names",
    ),
    Mutant(
        "report-of-other-bytes", "lcpo/study/report/html_folder.py",
        "if os.path.lexists(path / REPORT):", "if False:",
        ("tests/study/test_tables.py::test_a_page_shows_report_json",),
        "a page is read out of formatted text",
    ),
    Mutant(
        "episodes-of-a-block-count-once", "lcpo/study/report/imports.py",
        "np.where(episodes > 0, value * episodes, 0.0)",
        "np.where(episodes > 0, value, 0.0)",
        (f"{IMPORTS}episodes_become_epochs",), "imported blocks of episodes have wrong returns",
    ),
    Mutant(
        "epochs-end-before-their-last-step", "lcpo/study/report/imports.py",
        "(np.asarray(rows.step) - 1) // epoch",
        "np.asarray(rows.step) // epoch",
        (f"{IMPORTS}episodes_become_epochs",), "an imported episode counts for the next epoch",
    ),
    Mutant(
        "a-reset-takes-time", "lcpo/history.py",
        "extend(self.entries, context, place.lags, self.moved)",
        "extend(self.entries, context, place.lags, True)",
        (f"{HISTORY}histories_are_those_of_a_trace",),
        "a context stands in a history twice",
    ),
    Mutant(
        "a-users-array-is-kept", "lcpo/history.py",
        "obs = obs.copy()",
        "obs = np.asarray(obs)",
        (f"{HISTORY}whole_observations_bring_their_history",),
        "a history changes when its user writes into an old observation",
    ),
    Mutant(
        "no-cut-between-streams", "lcpo/live/rollout.py",
        "~ended & ~np.array([*follows, False])",
        "~ended & False",
        (f"{LEARNER}streams_stay_apart",),
        "returns run on from one stream into another",
    ),
    Mutant(
        "no-cut-before-a-gap", "lcpo/live/rollout.py",
        "before.stream == after.stream and before.place + 1 == after.place",
        "before.stream == after.stream",
        (f"{STREAMS}schedules_of_rewards",),
        "returns run on over steps that were left out",
    ),
    Mutant(
        "alone-after-a-gap-between-rollouts", "lcpo/live/rollout.py",
        "if alone and joined and all(follows):",
        "if alone and all(follows):",
        (f"{STREAMS}schedules_of_rewards",),
        "a gap between two rollouts is not noticed",
    ),
    Mutant(
        "returns-restart-with-each-rollout", "lcpo/agents/on_policy.py",
        "running, carried = batch.running, state.running_return",
        "pass",
        ("tests/live/test_running.py::test_returns_of_streams_go_on_across_cuts",),
        "a cut is an episode's end to the reward scale",
    ),
    Mutant(
        "running-return-of-another-episode", "lcpo/live/state.py",
        "if step.episode != self.episode:",
        "if self.episode < 0:",
        (f"{STREAMS}schedules_of_rewards",),
        "the running return continues into the next episode",
    ),
    Mutant(
        "late-by-one-more", "lcpo/live/loop.py",
        "mine.places - step.place > most",
        "mine.places - step.place > most + 1",
        (f"{STREAMS}schedules_of_rewards",),
        "rewards are waited for longer than stated",
    ),
    Mutant(
        "seconds-are-not-counted", "lcpo/live/loop.py",
        "oldest = math.inf if self.late.seconds is None else min(state.oldest, time)",
        "oldest = math.inf",
        (f"{STREAMS}schedules_of_rewards",),
        "late_seconds has no effect",
    ),
    Mutant(
        "another-reward-is-a-duplicate", "lcpo/live/outcomes.py",
        "if old not in (NEITHER, DEFAULT) and new not in (NEITHER, old):",
        "if False:",
        (f"{STREAMS}schedules_of_rewards",),
        "a second, different reward of a decision goes unnoticed",
    ),
    Mutant(
        "see-before-it-is-recorded", "lcpo/live/core.py",
        "        if self.record is not None:\n",
        "        self.state = state\n        if self.record is not None:\n",
        ("tests/live/test_misuse.py::test_an_event_that_cannot_be_recorded_does_not_happen",),
        "an event that is not in the log has an effect",
    ),
    Mutant(
        "keys-by-update-not-by-decision", "lcpo/live/core.py",
        "number, snapshot = self.state.decisions, self.snapshot",
        "number, snapshot = self.state.decisions % 16, self.snapshot",
        (f"{LEARNER}in_lock_step_it_is_lcpo_train",),
        "random numbers are used again",
    ),
    Mutant(
        "rounding-decides-actions", "lcpo/live/learning.py",
        "if found.sure or not self.exact:",
        "if True:",
        ("tests/live/test_fast.py::test_where_rounding_could_decide_the_compiled_agent_does",),
        "a learner in lock step can differ from `lcpo train`",
    ),
    Mutant(
        "snapshot-of-used-up-buffers", "lcpo/live/fast.py",
        "return jax.tree.map(np.array, params)",
        "return params",
        ("tests/live/test_background.py::test_nobody_waits_for_an_update",),
        "acting reads buffers that an update has taken",
    ),
    Mutant(
        "broken-state-is-saved", "lcpo/live/saving.py",
        "learning.check_usable(state.agent, learning.begin().agent, f",
        "str(f",
        (f"{LEARNER}a_broken_state_replaces_no_file",),
        "the last good file is overwritten",
    ),
    Mutant(
        "overruled-steps-weigh", "lcpo/live/outcomes.py",
        "weight = weight if np.array_equal(given.action, played) else 0.0",
        "weight = weight",
        (f"{LEARNER}what_was_played_instead_weighs_nothing",),
        "a policy learns from what it did not choose",
    ),
    Mutant(
        "taken-steps-weigh", "lcpo/live/core.py",
        "weight = 1.0 if taken is None and not deterministic else 0.0",
        "weight = 1.0",
        (f"{LEARNER}what_the_policy_did_not_draw_weighs_nothing",),
        "a policy learns from what another rule has chosen",
    ),
    Mutant(
        "forgotten-updates", "lcpo/live/saving.py",
        'values.whole("updates", about["updates"], 0, _MOST),',
        "0,",
        (f"{LEARNER}it_can_be_saved_between_any_two_calls",),
        "a loaded learner draws numbers that it has drawn before",
    ),
    Mutant(
        "learner-gives-its-state-away", "lcpo/live/learning.py",
        "kept = backup.restore() if backup else state.agent",
        "kept = state.agent",
        (f"{LEARNER}an_update_that_raises_is_dropped",),
        "a learner is of no use after an update that raised",
    ),
    Mutant(
        "live-contexts-by-step", "lcpo/live/loop.py",
        "ContextHistory(self.spec, self.settings.advance)",
        "ContextHistory(self.spec)",
        (f"{LEARNER}contexts_may_move_by_episode",),
        "the history of a context that moves by episode is one of steps",
    ),
    Mutant(
        "any-agent-of-a-folder", "lcpo/policy.py",
        "if agent in (None, result.job.agent):",
        "if not kinds:",
        (f"{POLICY}a_folder_of_several_agents_asks_which",),
        "the policy of whichever agent comes first is loaded",
    ),
    Mutant(
        "an-interval-of-two-seeds", "lcpo/core/intervals.py",
        "FEWEST = 3", "FEWEST = 2",
        ("tests/study/test_stats.py::test_two_seeds_support_no_interval",),
        "two seeds have an interval that they cannot support",
    ),
    Mutant(
        "time-is-a-context", "lcpo/contexts/columns.py",
        "return bool(np.all(np.diff(values[:, 0]) > 0))", "return False",
        (f"{COLUMNS}the_time_is_left_out",), "the clock is a context: nothing ever comes back",
    ),
    Mutant(
        "what-goes-back-is-time", "lcpo/contexts/columns.py",
        "return bool(np.all(np.diff(values[:, 0]) > 0))", "return True",
        (f"{COLUMNS}what_is_no_time_stays",), "a context is left out for its name alone",
    ),
    Mutant(
        "columns-in-the-order-of-the-file", "lcpo/contexts/readers.py",
        "every = len(kept) == count and kept == sorted(kept)",
        "every = len(kept) == count",
        (f"{COLUMNS}columns_in_the_order_asked_for",), "columns are not in the order asked for",
    ),
    Mutant(
        "repeat-holds", "lcpo/contexts/refs.py",
        "if ending == REPEAT:", "if not ending:",
        (f"{COLUMNS}after_the_end",), "a trace that should begin again stands still",
    ),
    Mutant(
        "gaps-are-not-counted", "lcpo/contexts/clock.py",
        "wide, late = apart > WIDE * usual,", "wide, late = apart > 100 * usual,",
        (f"{COPIES}gaps_in_time_are_counted",), "a context jumps over a gap that nobody is told of",
    ),
    Mutant(
        "filled-from-the-future", "lcpo/contexts/copies.py",
        'side="right") - 1', 'side="right")',
        (f"{COPIES}filled",), "an empty cell gets a value that was not known yet",
    ),
    Mutant(
        "intervals-are-sums", "lcpo/contexts/clock.py",
        "np.divide(total, size, out=means[:, c], where=size > 0)",
        "np.divide(total, 1, out=means[:, c], where=size > 0)",
        (f"{COPIES}a_fixed_interval",), "an hour of four rows has four times the price",
    ),
    Mutant(
        "below-doing-nothing", "lcpo/study/advice/learned.py",
        "if best is not None and ends[label] < ends[best]:",
        "if best is not None and ends[label] < 2 * ends[best]:",
        (f"{LEARNED}a_learner_below_a_baseline_is_told",),
        "a learner that ends below doing nothing is not told",
    ),
    Mutant(
        "few-updates-are-enough", "lcpo/study/advice/learned.py",
        "FEW = 500", "FEW = 300",
        (f"{LEARNED}few_updates_are_told_with_the_comparison_to_make",),
        "a run too short to learn looks like any other",
    ),
    Mutant(
        "suggests-the-same-for-long-runs", "lcpo/study/advice/suggest.py",
        "is_long = facts.steps >= LONG", "is_long = facts.steps > LONG",
        (f"{SUGGEST}a_long_run_gets_what_was_measured_on_long_runs",),
        "a long run gets the settings of a short one",
    ),
    Mutant(
        "long-runs-without-lcpo-plus", "lcpo/study/advice/suggest.py",
        '        Choice("lcpo-plus", learns_faster),\n', "",
        (f"{SUGGEST}a_long_run_is_compared_with_lcpo_plus_as_it_was_measured",),
        "the comparison of a long run lacks the agent that is ahead on most drawn traces",
    ),
    Mutant(
        "suggests-without-episodes", "lcpo/study/advice/suggest.py",
        "if facts.episode_length is not None:\n        return", "if facts.steps:\n        return",
        (f"{SUGGEST}a_short_run_gets_short_rollouts_large_limits_and_little_entropy",),
        "a short run gets the same agent with and without episodes",
    ),
    Mutant(
        "suggests-one-horizon", "lcpo/study/advice/suggest.py",
        "(0.95, 0.99) if facts.steps < FAIR else (0.99, 0.95)", "(0.95, 0.99)",
        (f"{SUGGEST}with_more_steps_the_horizon_grows_where_no_episode_ends",),
        "a longer run keeps the horizon of a short one",
    ),
    Mutant(
        "suggests-raw-units", "lcpo/study/advice/suggest.py",
        "scaled = RUNNING if facts.out_of_scale else None", "scaled = None",
        (f"{SUGGEST}out_of_scale_entries_are_normalized",),
        "networks get entries in thousands of watts",
    ),
    Mutant(
        "explores-for-a-quarter", "lcpo/study/advice/suggest.py",
        '"epsilon_steps": steps // 10', '"epsilon_steps": steps // 4',
        (f"{SUGGEST}replay_agents_take_many_gradient_steps_and_explore_for_a_share_of_the_run",),
        "a short run explores for most of its steps",
    ),
    Mutant(
        "facts-of-other-contexts", "lcpo/study/advice/facts.py",
        'if setup.env.advance == "own":', "if setup.env.spec.obs_size:",
        (f"{SUGGEST}facts_come_from_the_trace_that_is_given",),
        "the play that finds the facts has noise for a context",
    ),
    Mutant(
        "episodes-counted-not-measured", "lcpo/study/advice/facts.py",
        "ended.size / count if count else None", "float(count) if count else None",
        (f"{SUGGEST}facts_of_a_compiled_environment",),
        "the length of an episode is the number of episodes",
    ),
    Mutant(
        "suggests-over-the-environment", "lcpo/study/advice/start.py",
        "{**choice.config, **given}", "{**given, **choice.config}",
        (f"{SUGGEST}values_that_an_environment_brings_take_precedence",),
        "the grid world gets a limit with which it does not learn",
    ),
    Mutant(
        "suggests-for-no-steps", "lcpo/study/advice/start.py",
        "if steps < LEAST:", "if steps < 1:",
        (f"{SUGGEST}bad_input_is_refused_before_anything_is_played",),
        "a run of ten steps gets a suggestion",
    ),
    Mutant(
        "suggested-settings-are-left-out", "lcpo/study/commands.py",
        'shlex.join([*words, *changes("", settings, {})])', "shlex.join(words)",
        (f"{SUGGEST}the_commands_run_what_is_suggested",),
        "the printed command trains with the defaults",
    ),
    Mutant(
        "noise-of-a-trace-only", "lcpo/study/advice/findings.py",
        'Setup(job).env.advance == "episode":', 'Setup(job).env.advance != "step":',
        ("tests/study/test_findings.py::test_the_noise_of_a_gymnasium_context_is_told",),
        "a sigma below the noise of a Gymnasium context is not told",
    ),
    Mutant(
        "one-scale-for-all", "lcpo/study/advice/calibrate.py",
        "values * factors.astype(np.float32)", "values * factors[0].astype(np.float32)",
        ("tests/study/test_calibrate.py::test_scale_by_channel",),
        "all channels are scaled by the first one's factor",
    ),
    Mutant(
        "rare-events-are-tiny", "lcpo/core/scales.py",
        "0.0 < largest < TINY", "0.0 < x < TINY",
        ("tests/study/test_findings.py::test_a_rare_event_of_ordinary_size_is_in_scale",),
        "a rare event gets a factor that makes it too large",
    ),
    Mutant(
        "rare-events-do-not-count", "lcpo/study/advice/findings.py",
        "np.abs(rows).max() >= scales.TINY", "largest >= scales.TINY",
        ("tests/study/test_findings.py::test_a_trace_out_of_scale_is_told_with_the_factor",),
        "a small channel gets a factor that makes a rare event too large",
    ),
    Mutant(
        "noise-is-not-told", "lcpo/study/advice/findings.py",
        "if sigma >= noise:", "if sigma >= 0.01 * noise:",
        ("tests/test_comparison.py::test_a_sigma_below_the_noise_is_told",),
        "a constraint that acts on noise is not told",
    ),
    Mutant(
        "stopped-but-not-saved", "lcpo/run/drive/group.py",
        "if late or asked or is_kept:",
        "if late or is_kept:",
        ("tests/run/test_stop.py::test_a_signal_saves_and_says_so",), "Ctrl-C loses what was run",
    ),
    Mutant(
        "last-state-kept", "lcpo/run/drive/group.py",
        "kept_at = (phase.num_updates - 1) // block * block",
        "kept_at = phase.num_updates // block * block",
        ("tests/run/test_further.py::test_it_goes_on_as_if_it_had_never_ended[a2c]",),
        "a finished run has no state to go on from",
    ),
    Mutant(
        "half-a-program", "lcpo/run/compile_cache.py",
        "if _digest(key, value) != digest:",
        "if not digest:",
        ("tests/run/test_compile_cache.py::test_entries_are_whole_or_not_there",),
        "a damaged program is run",
    ),
    Mutant(
        "detector-gives-nan", "lcpo/core/ood.py",
        "(jnp.isnan(found) | (found < 0.0)).any()",
        "(found < 0.0).any()",
        ("tests/core/test_own_detectors.py::test_a_rule_that_is_broken_is_told",),
        "a detector that is wrong is found in the middle of a run, or never",
    ),
    Mutant(
        "resume-adds-anything", "lcpo/run/further.py",
        "    if others:",
        "    if not kinds:",
        ("tests/run/test_further.py::test_a_resume_adds_no_runs_that_are_not_in_the_plan",),
        "a resume adds runs of another trace to a folder",
    ),
    Mutant(
        "sizes-of-now", "lcpo/run/further.py",
        "return job.sized_for or job.steps",
        "return job.steps",
        ("tests/run/test_further.py::"
         "test_a_continuation_is_repeated_and_extended_with_its_own_command",),
        "a continuation cannot be repeated with its own command",
    ),
    Mutant(
        "any-plan-is-trusted", "lcpo/run/store/plans.py",
        "if digest not in (None, found_digest):",
        "if digest == '':",
        ("tests/run/test_plan_digest.py::test_a_worker_is_told_which_plan_to_trust",),
        "a worker runs the code of a plan that was put in the place of its own",
    ),
    Mutant(
        "largest-entry-only", "lcpo/archives.py",
        "total = sum(max(",
        "total = max(max(",
        ("tests/test_archives.py::test_no_entry_of_a_bomb_is_read",),
        "nested entries take many times the memory of their file",
    ),
    Mutant(
        "line-end-in-a-path", "lcpo/values.py",
        "    if has_control(text):",
        "    if \"\\0\" in text:",
        ("tests/run/test_plan_digest.py::test_no_path_becomes_code_of_the_script",),
        "a line end in --out becomes code of slurm.sh",
    ),
    Mutant(
        "any-file-is-ours", "lcpo/run/store/outputs.py",
        "ours = found is None or (found == REGULAR and is_ours(path))",
        "ours = found is None or found == REGULAR",
        (f"{OUTPUTS}a_page_is_written_over_a_page_only",), "a page replaces a plan",
    ),
    Mutant(
        "edited-and-replaced", "lcpo/study/report/output.py",
        "return _digest(path) in known[path.name]", "return bool(known)",
        (f"{OUTPUTS}a_report_replaces_only_what_its_command_wrote",),
        "a report replaces a file of somebody else that has the name of a table",
    ),
    Mutant(
        "device-replaced", "lcpo/run/store/files.py",
        "if (found := kind_of(path)) not in (None, REGULAR):",
        "if (found := kind_of(path)) in ():",
        (f"{OUTPUTS}only_regular_files_are_written_to",), "as root, a device becomes a file",
    ),
    Mutant(
        "half-an-import", "lcpo/run/store/layout.py",
        "if os.path.lexists(import_file(out)):", "if False:",
        (f"{IMPORTS}a_killed_import_is_not_taken_for_a_whole_one",),
        "a killed import is exported as if it were whole",
    ),
    Mutant(
        "formula-in-a-cell", "lcpo/study/report/tables.py",
        """return f"'{cell}" if is_formula else cell""", "return cell",
        (f"{OUTPUTS}no_cell_of_a_csv_file_is_a_formula",), "a spreadsheet runs what a cell says",
    ),
    Mutant(
        "outliers-pass", "lcpo/core/health.py",
        "beside = (largest <= OUTLIER * usual) | (usual == 0.0)",
        "beside = largest < jnp.inf",
        ("tests/core/test_health.py::test_a_reward_beside_which_the_others_vanish",),
        "one reward of 1e19 ends learning, and nobody is told",
    ),
    Mutant(
        "divisor-passes", "lcpo/core/health.py",
        "gone = (left < SMALLEST)",
        "gone = (left < 0.0)",
        ("tests/core/test_health.py::test_a_divisor_that_leaves_nothing_of_the_rewards",),
        "rewards are divided until nothing is left of them, and nobody is told",
    ),
    Mutant(
        "moments-overflow", "lcpo/core/stats.py",
        "values = jnp.clip(values, -LARGEST, LARGEST)",
        "values = jnp.clip(values, -jnp.inf, jnp.inf)",
        ("tests/core/test_health.py::test_moments_survive_any_finite_number",),
        "the running variance becomes infinite",
    ),
    Mutant(
        "state-not-looked-at", "lcpo/run/drive/compiled.py",
        ".at[count - 1].set(sign)",
        ".at[count - 1].set(0.0)",
        ("tests/run/test_poison.py::"
         "test_a_state_that_is_not_finite_stops_a_run_whose_metrics_are",),
        "a run whose agent holds NaN is finished",
    ),
    Mutant(
        "revisit-winds-closer", "lcpo/contexts/families.py",
        "levels = [rng.normal(0.0, 1.5, 2)]", "levels = [rng.normal(0.0, 1.4, 2)]",
        (PINNED,), "the drawn traces are not those that results were measured on",
    ),
    Mutant(
        "drift-as-often-fast-as-slow", "lcpo/contexts/families.py",
        '"relaxation": _steps(rng, 300_000, 5_000_000)',
        '"relaxation": _steps(rng, 300_000, 4_000_000)',
        (PINNED,), "drifts are not those that results were measured on",
    ),
    Mutant(
        "bursts-are-noisier", "lcpo/contexts/families.py",
        '"noise": rng.uniform(0.1, 0.4)', '"noise": rng.uniform(0.1, 0.5)',
        (PINNED,), "bursts are not those that results were measured on",
    ),
    Mutant(
        "families-share-their-seeds", "lcpo/contexts/families.py",
        "np.random.default_rng([*kind.encode(), seed])", "np.random.default_rng([seed])",
        (PINNED,), "members of two families with one seed are alike",
    ),
    Mutant(
        "gain-of-the-wrong-window", "lcpo/study/controls/drawn_tables.py",
        'whole, late = returns(members, "whole"), returns(members, "after")',
        'whole, late = returns(members, "after"), returns(members, "whole")',
        (GAINS,), "returns after warm-up are called those of the whole run",
    ),
    Mutant(
        "work-of-the-wrong-window", "lcpo/study/controls/rivals.py",
        'late, whole = (gains(cases, more, less, field) for field in ("after", "whole"))',
        'late, whole = (gains(cases, more, less, field) for field in ("after", "after"))',
        (GAINS,), "what more steps gain after warm-up is called the gain of the whole run",
    ),
    Mutant(
        "intervals-over-seeds-alone", "lcpo/study/controls/drawn_tables.py",
        "return stats.hierarchical_ci(", "return stats.stratified_ci(",
        (GAINS,), "intervals say nothing of other traces",
    ),
    Mutant(
        "a-range-without-its-end", "lcpo/contexts/families.py",
        "for seed in range(low, high + 1)]", "for seed in range(low, high)]",
        ("tests/contexts/test_refs.py::test_several_traces",), "family:drift:0..9 are nine traces",
    ),
    Mutant(
        "means-of-these-traces-alone", "lcpo/study/measure/traces.py",
        "return stats.hierarchical_ci(", "return stats.stratified_ci(",
        (f"{OVER_TRACES}intervals_are_over_traces",), "intervals say nothing of other traces",
    ),
    Mutant(
        "reference-minus-the-agent", "lcpo/study/measure/traces.py",
        "stats.hierarchical_difference(mine.late, other.late)",
        "stats.hierarchical_difference(other.late, mine.late)",
        (f"{OVER_TRACES}intervals_are_over_traces",), "differences have the wrong sign",
    ),
    Mutant(
        "failed-runs-do-not-count", "lcpo/study/measure/traces.py",
        "compare.ranked(mine, late).values()", "late.values()",
        (f"{OVER_TRACES}a_failed_run_loses_its_trace_and_is_not_in_the_means",),
        "an agent that fails half of its runs can win a trace",
    ),
    Mutant(
        "warm-up-of-the-longest-trace", "lcpo/study/measure/compare.py",
        "steps = min(longest.values())", "steps = max(longest.values())",
        (f"{OVER_TRACES}the_warm_up_must_end_on_every_trace",),
        "a warm-up as long as a run is refused only after the runs",
    ),
    Mutant(
        "numbers-of-another-trace", "lcpo/study/measure/compare.py",
        "if part.trace == job.trace_name), self)", "if part.trace), self)",
        (f"{OVER_TRACES}traces_may_differ_in_length_and_rows",),
        "runs in seeds.csv have the warm-up of the first trace",
    ),
    Mutant(
        "endless-traces-ask-for-steps", "lcpo/study/paper/columns.py",
        'if shared["steps"] is None:', 'if shared["steps"] is not None:',
        ("tests/study/test_drawn.py::test_a_study_beside_the_paper_refuses_traces_without_an_end",),
        "a study without the option --steps asks for steps",
    ),
    Mutant(
        "gains-over-seeds-alone", "lcpo/study/measure/stats/bootstrap.py",
        'return hierarchical_ci(pairs, "mean", level, resamples, seed)',
        'return stratified_ci(pairs, "mean", level, resamples, seed)',
        (f"{OVER_TASKS}differences_take_what_both_have",), "gains say nothing of other traces",
    ),
    Mutant(
        "mean-by-percentiles", "lcpo/study/measure/stats/bootstrap.py",
        'if measure != "mean":', "if measure:",
        (f"{OVER_TASKS}hierarchical_intervals_hold[30-0.64-3.0]",),
        "intervals of skewed differences are too narrow",
    ),
    Mutant(
        "student-for-studentised", "lcpo/study/measure/stats/bootstrap.py",
        "if n < FEWEST_STUDENTISED or", "if n < 10**9 or",
        (f"{OVER_TASKS}the_mean_over_tasks_has_a_studentised_interval",),
        "intervals do not widen with skewness",
    ),
    Mutant(
        "wins-of-pairs-of-seeds", "lcpo/study/measure/stats/bootstrap.py",
        'np.einsum("bi,ij,bj->b", times[0], won, times[1], optimize=True) / len(tasks)',
        'np.einsum("bi,ij,bj->b", times[0], won, times[1], optimize=True)',
        (f"{OVER_TASKS}improvement_over_tasks_draws_the_seeds_of_both",),
        "the interval of several tasks is that of their sum",
    ),
    Mutant(
        "one-side-drawn", "lcpo/study/measure/stats/bootstrap.py",
        "times = [rng.multinomial(k, np.full(k, 1 / k), resamples) / k for k in won.shape]",
        "times = [rng.multinomial(k, np.full(k, 1 / k), resamples) / k for k in won.shape]; "
        "times[1] = np.full_like(times[1], 1 / won.shape[1])",
        (f"{OVER_TASKS}improvement_over_tasks_draws_the_seeds_of_both",),
        "the luck of the other agent's seeds is not counted",
    ),
    Mutant(
        "coins-of-the-sizes", "lcpo/straggler/worlds.py",
        "rng = sources.generator(seed, index, stream=1)",
        "rng = sources.generator(seed, index, stream=0)",
        (f"{STRAGGLER}slow_copies_have_random_numbers_of_their_own",),
        "whether a copy is slow depends on when requests arrive",
    ),
    Mutant(
        "servers-slow-together", "lcpo/straggler/events.py",
        "math.floor(now / rules.slow_ms) * 1024 + server",
        "math.floor(now / rules.slow_ms) * 1024",
        (f"{STRAGGLER}servers_are_slow_each_by_itself",), "a second copy never helps",
    ),
    Mutant(
        "plan-of-the-judged-seeds", "lcpo/straggler/timeouts.py",
        "SEEDS = (1_000_000, 1_000_001, 1_000_002, 1_000_003)", "SEEDS = (0, 1, 2, 3)",
        ("tests/study/test_straggler_study.py::test_the_hourly_plan_is_made_on_other_seeds",),
        "the hourly plan knows the runs that it is judged on",
    ),
    Mutant(
        "mbcd-counts-one-world", "lcpo/agents/mbcd.py",
        "mine = spec.num_worlds * (batch.reward.shape[0] - first)",
        "mine = batch.reward.shape[0] - first",
        (f"{MBCD}of_several_worlds_each_step_counts",), "models are trained too late",
    ),
    Mutant(
        "mbcd-forgets-in-each-world", "lcpo/agents/mbcd.py",
        "-(-config.forget // spec.num_worlds)", "config.forget",
        (f"{MBCD}of_several_worlds_each_step_counts",), "more is forgotten than asked for",
    ),
    Mutant(
        "mbcd-waits-for-one-world", "lcpo/agents/mbcd.py",
        "spec.num_worlds * jnp.arange(length)", "jnp.arange(length)",
        (f"{MBCD}of_several_worlds_each_step_counts",), "changes are found too late",
    ),
    Mutant(
        "mbcd-averages-worlds", "lcpo/agents/mbcd.py",
        "density = jnp.sum(dynamics.log_density(ask(index)[0], y), axis=1)",
        "density = jnp.mean(dynamics.log_density(ask(index)[0], y), axis=1)",
        (f"{MBCD}densities_are_sums_over_worlds",), "evidence of several worlds is lost",
    ),
    Mutant(
        "mbpo-first-member", "lcpo/agents/mbpo.py",
        "index = jax.random.randint(keys[1], (), 0, config.ensemble_size)",
        "index = jnp.int32(0)",
        (f"{MBPO}one_member_imagines_at_a_time_and_each_takes_its_turn",),
        "one member of the ensemble imagines everything",
    ),
    Mutant(
        "clear-without-elapsed", "lcpo/agents/clear.py",
        "returns.discounts(config.gamma, both.elapsed)",
        "returns.discounts(config.gamma, 0.0 * both.elapsed + 1.0)",
        (f"{CLEAR}a_step_that_lasted_is_discounted_for_as_long",),
        "long steps are discounted as short ones",
    ),
    Mutant(
        "anchors-for-all-that-is-recent", "lcpo/agents/anchors.py",
        "        count,\n        config.sampling_rounds,",
        "        len(recent),\n        config.sampling_rounds,",
        (ROUNDS,), "more anchors than the batch has states",
    ),
    Mutant(
        "recent-rollouts-are-one", "lcpo/agents/anchors.py",
        "lambda rows: distance(spec.context, recent, rows[:, : spec.obs_size])",
        "lambda rows: distance(spec.context, recent[:count], rows[:, : spec.obs_size])",
        (ROUNDS,), "only the newest rollout counts as recent",
    ),
    Mutant(
        "always-five-rounds", "lcpo/agents/anchors.py",
        "        config.sampling_rounds,\n        key,", "        5,\n        key,",
        (ROUNDS,), "sampling_rounds has no effect",
    ),
    Mutant(
        "reservoir-copied", "lcpo/agents/anchors.py",
        "    if read is not None:", "    if False:",
        (f"{ANCHORS}the_reservoir_is_written_in_place",), "every update copies the reservoir",
    ),
    Mutant(
        "critics-take-the-policy-s-rate", "lcpo/agents/sliding_ogd.py",
        "critic = orthogonal(self, self.value_learning_rate)",
        "critic = orthogonal(self, self.learning_rate)",
        (f"{OGD}policy_and_critics_have_steps_of_their_own_length",),
        "value_learning_rate has no effect",
    ),
    Mutant(
        "fresh-weights-twice-as-large", "lcpo/core/nets.py",
        "draw = draw / jnp.sqrt(float(inputs))", "draw = draw / jnp.sqrt(float(outputs))",
        (WEIGHTS,), "fresh networks are not those of the paper",
    ),
    Mutant(
        "fresh-weights-positive", "lcpo/core/nets.py",
        "minval=-1.0, maxval=1.0", "minval=0.0, maxval=1.0",
        (WEIGHTS,), "fresh weights are all positive",
    ),
    Mutant(
        "loaded-learner-moves-by-step", "lcpo/live/saving.py",
        'None, about["advance"], about["normalise"])', 'None, "step", about["normalise"])',
        (f"{LEARNER}contexts_may_move_by_episode",), "a loaded learner keeps another history",
    ),
    Mutant(
        "input-between-two-indices", "lcpo/envs/mujoco/batch.py",
        "index = (chosen + high) / (2.0 * high) * (self.task.num_bins - 1)",
        "index = (chosen + high) / (2.0 * high) * self.task.num_bins",
        ("tests/envs/test_mujoco.py::test_an_input_of_the_grid_is_its_index",),
        "an input has the index of another one",
    ),
    Mutant(
        "sines-begin-together", "lcpo/contexts/generators.py",
        "phase = phase_rng.uniform(0.0, 2.0 * np.pi, channels)",
        "phase = np.full(channels, phase_rng.uniform(0.0, 2.0 * np.pi))",
        (PHASES,), "the channels of a sinusoid have one phase",
    ),
    Mutant(
        "half-of-all-phases", "lcpo/contexts/generators.py",
        "phase = phase_rng.uniform(0.0, 2.0 * np.pi, channels)",
        "phase = phase_rng.uniform(0.0, np.pi, channels)",
        (PHASES,), "every sinusoid begins above zero",
    ),
    Mutant(
        "time-stands-still", "lcpo/contexts/columns.py",
        "np.all(np.diff(values[:, 0]) > 0)", "np.all(np.diff(values[:, 0]) >= 0)",
        (f"{COLUMNS}what_is_no_time_stays",), "a context that is called time is left out",
    ),
    Mutant(
        "requests-are-a-time", "lcpo/contexts/columns.py",
        '(?<![a-z])(time|timestamp|datetime|date|ts)(?![a-z])',
        '(time|timestamp|datetime|date|ts)(?![a-z])',
        (f"{COLUMNS}what_is_no_time_stays",), "a column of requests is left out",
    ),
    Mutant(
        "ts-is-no-time", "lcpo/contexts/columns.py",
        "(time|timestamp|datetime|date|ts)", "(time|timestamp|datetime|date)",
        (f"{COLUMNS}the_time_is_left_out",), "a time becomes a context",
    ),
    Mutant(
        "distance-per-column-of-any-kind", "lcpo/core/ood.py",
        "return squared / jnp.maximum(varies.sum(), 1).astype(jnp.float32)",
        "return squared / varies.size",
        (f"{GOLDEN}ood_mahalanobis_full[ood_reacher_mahala_full_0]",),
        "columns that do not vary make all distances smaller",
    ),
    Mutant(
        "replay-starves", "lcpo/straggler/study.py",
        "steps * config.updates_per_rollout", "config.updates_per_rollout",
        (f"{STRAGGLER_STUDY}every_learner_has_the_same_share_of_the_papers_gradient_steps",),
        "agents with replay learn 20 times less than those that they are compared with",
    ),
    Mutant(
        "share-of-updates", "lcpo/study/costs.py",
        'updates * config.get("updates_per_rollout", 1) * parts', "updates * parts",
        (f"{STRAGGLER_STUDY}the_papers_gradient_steps_are_counted_by_hand",),
        "the table hides how much each agent has learned",
    ),
    Mutant(
        "acting-unscaled", "lcpo/acting.py",
        "return np.where(scaled, np.clip((x - mean) / std, -CLIP, CLIP), x)", "return x",
        (f"{ACTING}deep_sets_and_scales",),
        "a deployed policy sees raw observations where it was trained on normalized ones",
    ),
    Mutant(
        "acting-explores-by-dimension", "lcpo/acting.py",
        "draw.random(shape[:-1])[..., None] < self._epsilon()",
        "draw.random(shape) < self._epsilon()",
        (f"{ACTING}greedy_agents_explore_in_all_dimensions_at_once",),
        "a deployed DDQN explores more often than in training",
    ),
    Mutant(
        "acting-imports-jax", "lcpo/history.py",
        "import numpy as np\n", "import jax\nimport numpy as np\n",
        (f"{ACTING}acting_imports_numpy_alone",),
        "a process that only acts needs JAX",
    ),
    Mutant(
        "own-by-name", "lcpo/run/store/own_code.py",
        "text = json.dumps([job, files], sort_keys=True)",
        "text = json.dumps([job, sorted(files)], sort_keys=True)",
        ("tests/run/test_trust.py::test_code_from_another_place_needs_trust",),
        "a file of the same name in a stranger's folder is imported",
    ),
    Mutant(
        "own-policy-swapped", "lcpo/policy.py",
        "(about.agent, about.config) == (job.agent, job.config)", "True",
        ("tests/run/test_trust.py::test_a_policy_of_another_agent_in_ones_own_run_needs_trust",),
        "a policy that names other code is loaded because its run is known",
    ),
    Mutant(
        "own-list-of-others", "lcpo/run/store/files.py",
        "return path if is_mine and os.access(path, os.W_OK) else None", "return path",
        ("tests/run/test_trust.py::test_a_list_that_others_can_write_to_is_not_believed",),
        "others on the machine decide whose code is run",
    ),
    Mutant(
        "compiled-once", "lcpo/study/costs.py",
        "compiling * max(1.0, processes / max(1, len(programs)))", "compiling",
        (f"{STUDIES}more_processes_than_programs_compile_the_same",),
        "estimates for many cores are too short: each process compiles its own program",
    ),
    Mutant(
        "host-runs-alone", "lcpo/study/costs.py",
        "us += max(0.0, HOST_US / together - HOST_US / HOST_RUNS)", "us += 0.0",
        (f"{STUDIES}estimates_are_within_a_factor_of_two",),
        "a short run of a robot takes three times as long as estimated",
    ),
    Mutant(
        "list-runs-all", "lcpo/cli/reproduce.py",
        "study.plan(dataclasses.replace(options, check=False))",
        "study.plan(study.Options(check=False))",
        (f"{STUDIES}a_study_lists_what_would_run",),
        "--list ignores the options that restrict a study",
    ),
    Mutant(
        "cap-rounded-up", "lcpo/straggler/rules.py",
        "jnp.where(tokens > 0.0, shorter, delay)", "delay",
        (f"{HEDGING}the_cap_is_spent_though_no_timeout_spends_it[0.05]",),
        "the share of second copies is what the grid of timeouts makes of the cap",
    ),
    Mutant(
        "models-starve", "lcpo/agents/presets.py",
        '"threshold", "train_every", "train_until",', '"threshold",',
        (f"{STRAGGLER_STUDY}every_learner_has_the_same_share_of_the_papers_gradient_steps",),
        "MBCD's models are trained 20 times too rarely in short runs",
    ),
    Mutant(
        "weak-types-unseen", "lcpo/testing/agents.py",
        "{'weak ' if leaf.weak_type else ''}", "",
        ("tests/test_testing.py::test_broken_agents[weak type]",),
        "an agent whose update compiles twice passes",
    ),
    Mutant(
        "impure-agents-pass", "lcpo/testing/agents.py",
        "pure = texts[0] == texts[1]", "pure = len(texts) == 2",
        ("tests/test_testing.py::test_broken_agents[counter]",),
        "an agent with a counter of its own passes",
    ),
    Mutant(
        "any-action-passes", "lcpo/testing/agents.py",
        "require(valid, f", "require(True, f",
        ("tests/test_testing.py::test_broken_agents[no such action]",),
        "an agent that plays actions which do not exist passes",
    ),
    Mutant(
        "ends-unseen", "lcpo/testing/agents.py",
        'require(not differ(map(without_memory, case.after_end("terminated"))), beyond)',
        'require(case.after_end("terminated"), beyond)',
        ("tests/test_testing.py::test_broken_agents[terminated bootstraps]",),
        "an agent that bootstraps from terminated steps passes",
    ),
    Mutant(
        "neighbours-in-distances", "lcpo/testing/detectors.py",
        "if wrong.any():", "if wrong.all() and not wrong.any():",
        ("tests/test_testing.py::test_broken_detectors",),
        "a detector whose distances depend on the rest of the sample passes",
    ),
    Mutant(
        "problems-pass", "lcpo/testing/envs.py",
        'if level == "problem"]', 'if level == "error"]',
        ("tests/test_testing.py::test_broken_environments",),
        "an environment with problems passes",
    ),
    Mutant(
        "lags-by-channel", "lcpo/envs/entries.py",
        "itertools.product(channels or context_names_of(env), range(context.lags))",
        "((n, i) for i in range(context.lags) for n in channels or context_names_of(env))",
        ("tests/envs/test_entries.py::test_an_entry_has_the_name_of_what_stands_there",),
        "the table of an observation names other entries",
    ),
    Mutant(
        "names-of-the-trace", "lcpo/envs/entries.py",
        "channels or context_names_of(env)", "context_names_of(env)",
        ("tests/envs/test_entries.py::test_check_env_prints_names_of_the_columns_of_a_file",),
        "the columns of a CSV file lose their names",
    ),
    Mutant(
        "names-of-other-entries", "lcpo/gym/spaces.py",
        "names = tuple(called[i] for i in others), tuple(called[i] for i in chosen)",
        "names = called[: len(others)], called[len(others) :]",
        ("tests/envs/test_entries.py::test_names_of_gymnasiums_spaces",),
        "a context in the middle of a Box has the name of other entries",
    ),
    Mutant(
        "copied-memory-passes", "lcpo/testing/agents.py",
        "require(leaf.size < 8 or not copied,", "require(leaf.size,",
        ("tests/test_testing.py::test_broken_agents[copied memory]",),
        "an agent that copies its replay in every update passes",
    ),
    # The search of settings.
    Mutant(
        "everyone-goes-up", "lcpo/study/tune/ladder.py",
        "max(1, len(ranked) // REDUCTION)", "max(1, len(ranked))",
        (f"{TUNE_PARTS}the_best_third_goes_up_and_the_defaults_do",),
        "no trial is stopped early",
    ),
    Mutant(
        "failed-trials-go-up", "lcpo/study/tune/ladder.py",
        "if trial not in above and values[trial] is not None", "if trial not in above",
        (f"{TUNE_PARTS}failed_trials_never_go_up_and_are_last",),
        "a trial whose runs failed runs longer",
    ),
    Mutant(
        "defaults-stay-below", "lcpo/study/tune/ladder.py",
        "_best(values) | (defaults & values.keys())", "_best(values)",
        (f"{TUNE_PARTS}the_best_third_goes_up_and_the_defaults_do",),
        "the defaults are not measured on whole runs",
    ),
    Mutant(
        "early-trials-keep-their-level", "lcpo/study/tune/ladder.py",
        "for n in above & best if", "for n in above if",
        (f"{TUNE_PARTS}where_a_trial_stands_depends_on_all_trials",),
        "Optuna learns that the defaults are best, because they always go up",
    ),
    Mutant(
        "failed-trials-do-not-count", "lcpo/study/tune/history.py",
        "if len(known) == len(scores) else None", "if known else None",
        (f"{TUNE_PARTS}failed_trials_never_go_up_and_are_last",),
        "a setting that fails with one seed is judged by the others",
    ),
    Mutant(
        "random-search-state", "lcpo/study/tune/sampler.py",
        "TPESampler(seed=state,", "TPESampler(",
        (f"{TUNE_PARTS}what_is_drawn_depends_on_the_history_and_the_seed_alone",),
        "a resumed search draws other trials",
    ),
    Mutant(
        "one-search-seed", "lcpo/study/tune/sampler.py",
        "[seed, first, agent]", "[first, agent]",
        (f"{TUNE_PARTS}what_is_drawn_depends_on_the_history_and_the_seed_alone",),
        "--seed has no effect",
    ),
    Mutant(
        "a-program-per-trial", "lcpo/study/tune/sampler.py",
        "PartialFixedSampler(shared, tpe) if shared else tpe", "tpe",
        (f"{TUNE_PARTS}trials_in_a_row_share_a_program",),
        "every trial compiles a program of its own",
    ),
    Mutant(
        "nothing-is-told", "lcpo/study/tune/sampler.py",
        "study.add_trials(_ended(kinds, space, one))", "_ended(kinds, space, one)",
        (f"{TUNE_PARTS}the_search_learns_from_the_history",),
        "the search is random",
    ),
    Mutant(
        "sizes-of-short-runs", "lcpo/study/tune/search.py",
        "sized_for=job.sized_for or job.steps", "sized_for=None",
        (f"{TUNING}trials_climb_from_short_runs_to_all_seeds",),
        "short runs do not say of which run they are the beginning",
    ),
    Mutant(
        "judged-on-the-search-data", "lcpo/study/tune/request.py",
        "if _data(job) in seen:", "if False:",
        (f"{TUNING}bad_input_is_refused_before_any_work",),
        "found settings are judged on the seeds that they were chosen on",
    ),
    Mutant(
        "data-by-their-paths", "lcpo/study/tune/request.py",
        "job.trace_digest or job.trace_name", "job.trace_name",
        (f"{TUNING}judging_data_are_new_however_they_are_named",),
        "found settings are judged on the search's file, by another path",
    ),
    Mutant(
        "requests-unlike-their-file", "lcpo/study/tune/request.py",
        "searches.from_json(json.loads(json.dumps(searches.to_json(request))))", "request",
        (f"{TUNING}a_request_is_as_its_file_has_it",),
        "a search that Python code began with a tuple cannot be resumed",
    ),
    Mutant(
        "one-name-for-all-finds", "lcpo/study/tune/judged.py",
        '-{TUNED}-{trial.number}"', '-{TUNED}"',
        (f"{TUNING}a_longer_search_judges_what_it_finds_later",),
        "a search that is continued stops when it has found something better",
    ),
    Mutant(
        "failed-trials-keep-their-level", "lcpo/study/tune/ladder.py",
        "return sorted(found, key=lambda trial: trial in failed)", "return found",
        (f"{TUNE_PARTS}trials_that_fail_on_a_higher_level_are_last",),
        "a trial that failed is chosen over one that did not",
    ),
    Mutant(
        "failures-are-recommended", "lcpo/study/tune/sampler.py",
        "level, value = FAILED, order(None)", "value = order(None)",
        (f"{TUNE_PARTS}optuna_learns_that_failed_trials_are_the_worst",),
        "Optuna searches near settings that failed on a high level",
    ),
    Mutant(
        "rules-are-searched", "lcpo/study/tune/space.py",
        "if not known & LEARNED:", "if False:",
        (f"{TUNE_PARTS}rules_are_refused_and_agents_that_learn_are_not",),
        "the rollout length of a rule is searched, which changes nothing",
    ),
    Mutant(
        "search-without-the-default", "lcpo/study/tune/space.py",
        "_including(RANGES[name], defaults[name])", "RANGES[name]",
        (f"{TUNE_PARTS}what_an_environment_brings_is_inside_the_space",),
        "the search neither learns from the defaults nor finds them again",
    ),
    Mutant(
        "search-without-entropy", "lcpo/study/tune/space.py",
        '(*_ACTOR_CRITIC, "entropy_coef", "entropy_target",', '(*_ACTOR_CRITIC, "entropy_target",',
        (f"{TUNE_PARTS}the_search_can_find_what_lcpo_suggest_names",),
        "the search cannot find the entropy bonus that helps short runs most",
    ),
    Mutant(
        "compared-on-the-search-data", "lcpo/study/tune/report.py",
        '"--seeds", _listed(request.judge_seeds)]', '"--seeds", str(len(request.judge_seeds))]',
        ("tests/test_tuning.py::test_the_printed_commands_run_the_found_settings",),
        "the printed comparison runs on the seeds that the settings were chosen on",
    ),
    Mutant(
        "search-for-any-environment", "lcpo/study/tune/request.py",
        "dimensions, steps, presets.settings(a, env, find_env(env))", "dimensions, steps",
        ("tests/test_tuning.py::test_the_space_includes_what_the_environment_brings",),
        "a space without what the environment brings for the agent",
    ),
    Mutant(
        "levels-without-the-default", "lcpo/study/tune/search.py",
        'lengths = [request.defaults(number)["rollout_length"]]', "lengths = []",
        ("tests/test_tuning.py::test_short_runs_have_ten_updates_of_the_defaults",),
        "the defaults of a task with long rollouts are judged by two updates",
    ),
    Mutant(
        "long-names-of-runs", "lcpo/run/plan/job.py",
        "if not self.point or len(", "if self.point or len(",
        ("tests/run/test_job.py::test_settings_that_make_a_name_too_long_become_a_fingerprint",),
        "agents with many settings cannot run",
    ),
    Mutant(
        "one-fingerprint", "lcpo/run/plan/job.py",
        "-{settings[:12]}-s", "-{settings[:0]}-s",
        ("tests/run/test_job.py::test_settings_that_make_a_name_too_long_become_a_fingerprint",),
        "runs with different settings share a folder",
    ),
    Mutant(
        "reasons-for-other-values", "lcpo/study/advice/start.py",
        "for name in brought)", "for name in ())",
        (f"{SUGGEST}a_task_that_brings_many_values_gets_commands_that_run",),
        "a suggestion gives reasons for settings that it does not have",
    ),
    Mutant(
        "refused-pairs-are-searched", "lcpo/study/tune/request.py",
        "    _check_combinations(request)\n", "",
        (f"{TUNING}bad_input_is_refused_before_any_work",),
        "a search stops for good at a trial that can never run",
    ),
    Mutant(
        "one-name-for-two-searches", "lcpo/study/tune/judged.py",
        "return agent.name if is_alone else default_label(agent)", "return agent.name",
        (f"{TUNING}one_agent_with_two_fixed_settings_has_runs_of_its_own_for_each",),
        "found settings of two searches share their runs",
    ),
    Mutant(
        "inexact-runs-go-on", "lcpo/study/tune/search.py",
        "for job in () if exact else jobs:", "for job in ():",
        (f"{TUNING}runs_of_worlds_that_cannot_be_saved_begin_again",),
        "the history depends on when the search was interrupted",
    ),
    Mutant(
        "always-better", "lcpo/study/tune/judged.py",
        "if low > 0.0:", "if high > 0.0:",
        (f"{TUNING}what_is_not_significant_is_reported",),
        "settings that are not significantly better are called better",
    ),
    Mutant(
        "searches-are-trusted", "lcpo/cli/tune.py",
        "if name not in known:", "if False:",
        (f"{TUNING}code_that_only_the_search_names_is_not_imported",),
        "resuming a folder of somebody else runs that person's code",
    ),
    Mutant(
        "another-search", "lcpo/tuning.py",
        "        check_same(found.request, wanted.request, out)\n", "",
        (f"{TUNING}folders_of_others_are_refused",),
        "a resumed search goes on with the settings of another",
    ),
    Mutant(
        "worst-constant", "lcpo/study/tune/judged.py",
        "max(found, key=lambda name: found[name])", "min(found, key=lambda name: found[name])",
        (f"{TUNING}it_finds_settings_that_are_better_than_the_defaults",),
        "found settings stand beside the worst constant action",
    ),
    Mutant(
        "log-header-unchecked", "lcpo/live/records.py",
        "if check != crc32(content[offset : start - _CHECK.size], chain):", "if False:",
        (f"{LIVE_LOG}no_flipped_bit_is_overlooked",), "a damaged length cuts the rest of the log",
    ),
    Mutant(
        "log-payload-unchecked", "lcpo/live/records.py",
        "if body != crc32(payload, chain):", "if False:",
        (f"{LIVE_LOG}no_flipped_bit_is_overlooked",), "a damaged reward is learned from",
    ),
    Mutant(
        "log-records-unchained", "lcpo/live/records.py",
        "check = crc32(head, chain)", "check = crc32(head)",
        (f"{LIVE_LOG}a_record_of_another_place_is_damage",), "records can be exchanged",
    ),
    Mutant(
        "log-without-seal", "lcpo/live/segments.py",
        "if is_last and sealed and not follower.exists():", "if False:",
        (f"{LIVE_LOG}wrong_segments_are_refused",), "a missing newest segment is not noticed",
    ),
    Mutant(
        "log-segments-unchained", "lcpo/live/segments.py",
        "if segment.before != self.last:", "if False:",
        (f"{LIVE_LOG}wrong_segments_are_refused",), "a segment of an old copy passes",
    ),
    Mutant(
        "log-foreign-segment", "lcpo/live/segments.py",
        "if owner != log:", "if False:",
        (f"{LIVE_LOG}wrong_segments_are_refused",), "the segment of another log is named wrongly",
    ),
    Mutant(
        "log-failed-write-stays", "lcpo/live/log.py",
        "            if self._position is not end:\n                self._undo()\n", "",
        (f"{LIVE_LOG}a_full_disk_loses_nothing_that_was_acknowledged",),
        "records follow the rest of one that was not written",
    ),
    Mutant(
        "log-without-flush", "lcpo/live/log.py",
        'if self.durability != "power":', "if sequence:",
        (f"{LIVE_LOG}power_durability_flushes_before_it_acknowledges",),
        "a power cut loses what was acknowledged",
    ),
    Mutant(
        "log-drops-too-much", "lcpo/live/log.py",
        "self._segments[1].first <= through + 1:", "self._segments[1].first <= through + 2:",
        (f"{LIVE_LOG}segments_before_a_checkpoint_are_dropped",),
        "events after the checkpoint are deleted",
    ),
    Mutant(
        "log-behind-its-checkpoint", "lcpo/live/log.py",
        "if scan.end.sequence <= after:", "if False:",
        (f"{LIVE_LOG}a_checkpoint_that_is_ahead_of_the_log_is_refused",),
        "a log that lost its end goes on with sequences that the checkpoint has seen",
    ),
    Mutant(
        "guard-budget-without-way-back", "lcpo/live/guard.py",
        "            if action == self._free:\n                return True\n",
        "            return True\n",
        (f"{LIMITS}all_limits_hold_on_every_action_of_random_sequences",),
        "a budget is exceeded where actions may only change slowly",
    ),
    Mutant(
        "guard-change-from-anything", "lcpo/live/guard.py",
        "low = _clip([a - c for a, c in near], low, high)", "low = self._low",
        (f"{LIMITS}bounds_and_changes_hold",), "actions fall faster than allowed",
    ),
    Mutant(
        "switchback-one-draw", "lcpo/live/switchback.py",
        'f"{design.seed} {group} {place}"', 'f"{design.seed} {place}"',
        (f"{SWITCHBACK}every_group_has_its_share_of_blocks_in_random_order",),
        "all groups have the same order: a cycle of the system decides who wins",
    ),
    Mutant(
        "switchback-incomplete-groups", "lcpo/live/switchback.py",
        "if len(means) < size:", "if not means:",
        (f"{SWITCHBACK}the_estimate_against_numbers_by_hand",), "half a pair is compared",
    ),
    Mutant(
        "rollback-without-margin", "lcpo/live/versions.py",
        "incumbent[1] / incumbent[0] - rule.margin", "incumbent[1] / incumbent[0]",
        (f"{VERSIONS}worse_is_by_more_than_the_margin_over_whole_windows",),
        "a policy goes that is worse by less than what is allowed",
    ),
    Mutant(
        "rollback-to-the-newest", "lcpo/live/versions.py",
        "self.good = min(self._versions)", "self.good = version",
        (f"{VERSIONS}a_policy_as_good_as_the_incumbent_stays",),
        "the version that has just become bad counts as good",
    ),
    Mutant(
        "prune-the-good-one", "lcpo/live/versions.py",
        "*newest_up_to(ordered, good)}", "}",
        (f"{VERSIONS}versions_come_back_and_old_ones_go",), "nothing is left to return to",
    ),
    Mutant(
        "live-without-log", "lcpo/live/service.py",
        "self._log.write([encode(entry) for entry in entries])",
        "pass",
        (f"{LIVE}an_agent_continues_where_it_was",), "what was acknowledged is lost in a crash",
    ),
    Mutant(
        "live-frozen-learns", "lcpo/live/serving.py",
        "is_frozen = self.desk.mode == FROZEN", "is_frozen = False",
        (f"{LIVE}frozen_mode_acts_and_learns_nothing",), "a frozen agent changes its policy",
    ),
    Mutant(
        "live-shadow-moves-the-actor", "lcpo/live/shadow.py",
        "if any(step.weight for step in state.closed[: self.num_steps]):", "if state.closed:",
        (f"{LIVE}shadow_mode_learns_without_deciding[a2c]",),
        "weight decay shrinks a policy that only watches",
    ),
    Mutant(
        "live-without-guard", "lcpo/live/serving.py",
        "if self.guard is None:\n            return asked", "if asked:\n            return asked",
        (f"{LIVE}limits_hold_on_every_action_of_a_poisoned_policy",), "no limit holds",
    ),
    Mutant(
        "live-guard-forgets", "lcpo/live/serving.py",
        "= self.guard.remember(memory, event.action)", "= memory",
        (f"{LIVE}limits_hold_on_every_action_of_a_poisoned_policy",),
        "changes and budgets start anew with every action",
    ),
    Mutant(
        "live-learns-from-the-guard", "lcpo/live/serving.py",
        "drawn = chosen.source == POLICY and", "drawn = chosen.policys and",
        (f"{LIVE}limits_hold_on_every_action_of_a_poisoned_policy",),
        "the policy learns from actions that it did not choose",
    ),
    Mutant(
        "live-return-forgotten", "lcpo/live/desk.py",
        """"returns": [list(pair) for pair in self.returns.items()],""", """"returns": [],""",
        ("tests/live/test_live_incidents.py::test_a_crash_in_a_rollback_loses_nothing_that_recovery_needs",),
        "a version goes that an older checkpoint needs",
    ),
    Mutant(
        "live-old-rewards-roll-back", "lcpo/live/versions.py",
        "if version < self._since:", "if False:",
        ("tests/live/test_live_incidents.py::test_late_rewards_of_a_version_that_has_gone_do_not_count",),
        "late rewards of the version that has gone cause another rollback",
    ),
    Mutant(
        "live-rewards-before-the-experiment", "lcpo/live/desk.py",
        "made._replace(counts=False)", "made",
        ("tests/live/test_live_incidents.py::test_rewards_from_before_an_experiment_are_not_in_it",),
        "rewards from before a switchback experiment are in its difference",
    ),
    Mutant(
        "live-checkpoint-ahead-of-the-log", "lcpo/live/service.py",
        "self._log.flush(sequence)", "pass",
        ("tests/live/test_live_incidents.py::test_a_power_cut_leaves_a_log_that_reaches_its_checkpoint",),
        "a power cut leaves a log that ends before its checkpoint",
    ),
    Mutant(
        "live-learning-never-catches-up", "lcpo/live/core.py",
        "return 1 if self._hurries else BACKLOG", "return BACKLOG",
        ("tests/live/test_live_incidents.py::test_an_agent_that_learns_more_slowly_than_it_acts_is_saved_and_rolled_back",),
        "an agent under full load is never saved, and no rollback happens",
    ),
    Mutant(
        "serve-outcomes-block-decisions", "lcpo/serve/calls.py",
        "pool = state.waits if may_wait else state.calls", "pool = state.calls",
        ("tests/serve/test_app.py::test_outcomes_that_wait_for_learning_hold_up_nobody",),
        "outcomes that wait for learning take the threads of decisions",
    ),
    Mutant(
        "live-burn-in-counts", "lcpo/live/serving.py",
        "design is not None and design.counts(event.time)", "design is not None",
        (f"{LIVE}switchback_mode_takes_turns",), "the other's aftermath is in the difference",
    ),
    Mutant(
        "live-replay-unchecked", "lcpo/live/rebuild.py",
        "if player.serving.state.digest() != expected:", "if False:",
        (f"{LIVE}replays_stop_and_check_what_they_find",), "any learner passes for the same",
    ),
    Mutant(
        "live-one-number-for-two-versions", "lcpo/live/serving.py",
        "restored(now.agent, arrays), now.updates + 1", "restored(now.agent, arrays), now.updates",
        (f"{LIVE}any_version_can_return_by_hand",), "a version number means two policies",
    ),
    Mutant(
        "live-random-policy-decides", "lcpo/live/serving.py",
        "if version in self.desk.untrained:", "if False:",
        ("tests/live/test_live_incidents.py::test_after_a_return_to_the_first_policy_the_fallback_answers",),
        "after a rollback to the first version a random policy decides",
    ),
    Mutant(
        "live-rollback-again-and-again", "lcpo/live/serving.py",
        "self.desk.due, self.desk.drops = False, 0", "self.desk.drops = 0",
        (f"{LIVE}a_poisoned_policy_is_rolled_back_within_the_window",),
        "every further event rolls back again",
    ),
    Mutant(
        "live-decision-in-two-writes", "lcpo/live/serving.py",
        "if self._thread is None and self.learning.is_full(seen):", "if True:",
        (f"{LIVE}a_decision_is_written_at_once_or_not_at_all",),
        "an observation is in the log though its decision failed",
    ),
    Mutant(
        "live-rollback-needs-its-checkpoint", "lcpo/live/service.py",
        "        except NotWritten as error:  # the rollback itself is in the log\n"
        "            self._tell(str(error))\n",
        "        finally:\n            pass\n",
        (f"{LIVE}a_rollback_counts_though_its_checkpoint_cannot_be_saved",),
        "a rollback that has happened is reported as failed",
    ),
    Mutant(
        "live-settings-are-ignored", "lcpo/live/folder.py",
        "        _check_rest(folder, given, stored)\n", "",
        (f"{LIVE}other_settings_than_before_are_refused",),
        "a setting that differs from the folder's is ignored",
    ),
    Mutant(
        "live-waits-for-a-dead-thread", "lcpo/live/core.py",
        "                self._ended = True\n", "",
        ("tests/live/test_background.py::test_nobody_waits_for_a_thread_that_has_ended",),
        "calls wait for ever for a thread that has ended",
    ),
    Mutant(
        "live-log-begun-again", "lcpo/live/service.py",
        "if self._versions.numbers() and not any(", "if False and not any(",
        ("tests/live/test_live_incidents.py::test_a_log_that_was_deleted_is_not_begun_again",),
        "an agent whose log was deleted starts over, silently",
    ),
    Mutant(
        "live-what-if-after-a-rollback", "lcpo/live/rebuild.py",
        "    elif returns:\n", "    elif False:\n",
        ("tests/live/test_live_commands.py::test_other_settings_need_all_that_was_learned",),
        "weights of other settings return in a what-if",
    ),
    Mutant(
        "live-drops-what-a-checkpoint-needs", "lcpo/live/service.py",
        "self._log.drop(needed)", "self._log.drop(sequence)",
        (f"{LIVE}a_damaged_checkpoint_has_a_predecessor[False]",),
        "a damaged checkpoint has a predecessor without events",
    ),
    Mutant(
        "live-checkpoint-of-another", "lcpo/live/checkpoints.py",
        'if about["learner"] != state.digest():', "if False:",
        (f"{LIVE}an_exchanged_checkpoint_is_refused",), "the learner of another moment continues",
    ),
    Mutant(
        "serve-metric-renamed", "lcpo/serve/metrics.py",
        '("open_decisions", "Decisions that', '("decisions_open", "Decisions that',
        (f"{DEPLOY}every_metric_in_use_exists",), "an alert watches a metric that never comes",
    ),
    Mutant(
        "serve-metric-without-its-label", "lcpo/serve/metrics.py",
        '"Answers with an error status.", ["status"]', '"Answers with an error status.", ["code"]',
        (f"{DEPLOY}every_metric_in_use_exists",), "alerts about 503 never fire",
    ),
    Mutant(
        "serve-token-not-compared", "lcpo/serve/app.py",
        'if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), token):',
        'if scheme.lower() != b"bearer":',
        (f"{SERVE}calls_need_the_token",), "any token opens the server",
    ),
    Mutant(
        "serve-token-in-variable-time", "lcpo/serve/app.py",
        "not hmac.compare_digest(given.strip(), token)", "given.strip() != token",
        (f"{SERVE}calls_need_the_token",), "the time of an answer tells how much of a token fits",
    ),
    Mutant(
        "serve-any-host", "lcpo/serve/app.py",
        "if ANY not in config.hosts and name not in config.hosts:", "if False:",
        (f"{SERVE}errors_have_one_line_and_a_status",), "a web page reaches the server",
    ),
    Mutant(
        "serve-any-origin", "lcpo/serve/app.py",
        "if origin is not None and origin", "if origin is None and origin",
        (f"{SERVE}errors_have_one_line_and_a_status",), "a web page of another origin calls",
    ),
    Mutant(
        "serve-any-content-type", "lcpo/serve/app.py",
        "if kind != JSON:", "if False:",
        (f"{SERVE}errors_have_one_line_and_a_status",), "a form of a web page calls the agent",
    ),
    Mutant(
        "serve-rest-of-a-body-is-a-request", "lcpo/serve/app.py",
        "if not reader.is_done:", "if False:",
        (f"{SERVE}a_body_that_was_not_read_ends_the_connection",),
        "what is left of a body is read as a request",
    ),
    Mutant(
        "serve-ready-with-a-full-disk", "lcpo/serve/calls.py",
        "            state.failed_write(one_line(error))\n", "",
        (f"{SERVE}a_full_disk_makes_it_unready",), "calls are sent where none can be taken",
    ),
    Mutant(
        "serve-outside-without-a-token", "lcpo/serve/config.py",
        "if token is None and not address.is_local:", "if False:",
        ("tests/serve/test_config.py::test_mistakes_are_explained",),
        "everybody on the network can call",
    ),
    Mutant(
        "serve-reload-drops-the-token", "lcpo/serve/config.py",
        "token = new.token if new.token or old.address.is_local else old.token",
        "token = new.token",
        ("tests/serve/test_config.py::test_only_some_of_it_may_change",),
        "a reload opens a server to the network",
    ),
    Mutant(
        "serve-key-is-not-kept", "lcpo/live/desk.py",
        '"keys": self.keys.to_json(),', '"keys": [],',
        ("tests/live/test_keys.py::test_a_repeated_call_gets_the_same_decision",),
        "a call that is repeated after a restart decides again",
    ),
    Mutant(
        "serve-key-of-another-observation", "lcpo/live/keys.py",
        "if found is not None and found.check != checksum(see):", "if False:",
        ("tests/live/test_keys.py::test_a_repeated_call_gets_the_same_decision",),
        "a key that is used twice hides an observation",
    ),
    Mutant(
        "serve-client-gives-up", "lcpo/serve/client.py",
        "                continue\n", "",
        (f"{SERVE_CLIENT}outcomes_are_repeated_until_they_are_acknowledged",),
        "outcomes are lost while the server is away",
    ),
    Mutant(
        "serve-client-leaves-decisions-open", "lcpo/serve/client.py",
        "            self._settle(stream, until)\n", "",
        (f"{SERVE_CLIENT}a_silent_server_is_left_alone_and_its_decision_discarded",),
        "the agent waits for rewards of decisions that nobody played",
    ),
    Mutant(
        "serve-client-forgets-its-first-attempt", "lcpo/serve/client.py",
        "may_be_done |= self._sent  #", "may_be_done = self._sent  #",
        (f"{SERVE_CLIENT}a_decision_of_a_server_that_died_is_discarded",),
        "a decision of a server that was killed stays open",
    ),
    Mutant(
        "live-open-decisions-change-in-place", "lcpo/live/state.py",
        "part = dict(parts[place])", "part = parts[place]",
        ("tests/live/test_streams.py::test_open_decisions_cost_the_same_however_many_there_are",),
        "a state that was kept loses decisions that were open",
    ),
    Mutant(
        "serve-updates-on-the-event-loop", "lcpo/serve/state.py",
        ' and live.learn == "background"', "",
        ("tests/serve/test_app.py::test_an_update_within_a_call_holds_up_nobody_else",),
        "an update within a call stops all other requests",
    ),
)  # fmt: skip
