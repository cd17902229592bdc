"""Tests that wait for `make test-slow`, so that `make test` stays short.

Each takes seconds, mostly to compile or to start processes, and what it guards is touched by a
faster one as well, or seldom changed. The name is that of the test, or of one of its cases.
"""

from __future__ import annotations

LATER = (
    "agents/test_add_an_agent.py::test_from_the_command_line",
    "agents/test_add_an_agent.py::test_own_environment",
    "agents/test_add_an_agent.py::test_truncated_bootstraps_and_terminated_does_not",
    "agents/test_add_an_agent.py::test_vmap_over_seeds_and_traced_fields_equals_a_loop",
    "agents/test_guard.py::test_imagined_steps_obey_the_guard",
    "agents/test_mbcd.py::test_no_policy_learns_in_a_rollout_with_a_change_and_entropy_is_tuned_once",
    "agents/test_mbpo.py::test_imagined_steps_start_where_real_ones_did_and_end_as_they_did",
    "agents/test_mbpo.py::test_the_second_replay_closes_and_entropy_is_that_of_real_states",
    "agents/test_networks.py::test_every_agent_can_have_a_deep_set[lcpo]",
    "agents/test_networks.py::test_hooks_see_and_change_the_gradients_of_sac",
    "agents/test_normalise.py::test_stopped_and_resumed_equals_never_stopped",
    "agents/test_on_policy.py::test_long_window_hides_a_change",
    "agents/test_online_ewc.py::test_every_gradient_step_draws_actions_of_its_own",
    "agents/test_sliding_ogd.py::test_directions_stand_in_the_memory_and_are_counted",
    "agents/test_sliding_ogd.py::test_steps_go_down_the_loss_and_with_the_fault_up",
    "cli/test_cli.py::test_a_run_too_short_to_say_which_sigma_would_do",
    "cli/test_cli.py::test_plan_only_writes_what_a_bare_machine_runs",
    "cli/test_exit_codes.py::test_a_failed_run",
    "cli/test_exit_codes.py::test_an_environment_that_breaks_before_its_first_checkpoint[workers]",
    "contracts/test_contracts.py::test_nothing_leaks_across_an_episode_end[mbcd-terminated]",
    "contracts/test_contracts.py::test_nothing_leaks_across_an_episode_end[mbpo-terminated]",
    "core/test_dynamics.py::test_the_ensemble_learns_a_linear_system_and_its_noise",
    "core/test_own_detectors.py::test_the_page_in_the_docs_runs",
    "core/test_replay.py::test_the_pendulum_keeps_its_promise",
    "envs/test_add_an_environment.py::test_one_of_gymnasiums_own",
    "envs/test_add_an_environment.py::test_the_command_of_the_page",
    "envs/test_autoscaler.py::test_a_saved_policy_scales_by_itself",
    "envs/test_gridworld.py::test_a_table_keeps_what_it_does_not_visit[mlp]",
    "envs/test_mujoco.py::test_returns_of_a_random_policy[hopper]",
    "envs/test_straggler.py::test_waiting_time_of_one_server_is_that_of_m_d_1",
    "golden/test_golden_grid.py::test_tabular_update[grid_tabular_a2c_0]",
    "golden/test_golden_models.py::test_mbcd_finds_the_same_changes[mbcd_cusum_2]",
    "golden/test_golden_models.py::test_model[mbpo_model_1]",
    "golden/test_golden_straggler_agents.py::test_a2c_update[straggler_update_a2c_0]",
    "run/test_compile_cache.py::test_a_second_process_finds_a_program",
    "run/test_damage.py",
    "run/test_engines.py::test_standard_output_of_a_worker_is_events_alone",
    "run/test_engines.py::test_the_second_of_two_drivers_is_refused_and_ctrl_c_stops_the_first",
    "run/test_engines.py::test_workers_that_misbehave",
    "run/test_host.py::test_a_run_does_not_depend_on_the_runs_beside_it[lcpo]",
    "run/test_host.py::test_both_drivers_give_the_same[grid-world]",
    "run/test_host.py::test_both_drivers_give_the_same[pendulum-random-starts]",
    "run/test_host.py::test_stopped_at_every_chunk_equals_never_stopped[own]",
    "run/test_host.py::test_stopped_at_every_chunk_equals_never_stopped[prescient]",
    "run/test_host.py::test_stopped_at_every_chunk_equals_never_stopped[worlds]",
    "run/test_host.py::test_vmapped_updates_agree_with_single_ones",
    "run/test_host.py::test_workers_share_the_runs",
    "run/test_in_main.py::test_a_script_runs_in_its_own_process",
    "run/test_kills.py::test_killed_at_some_file_operations[ddqn]",
    "run/test_kills.py::test_the_disk_is_full_at_some_file_operations",
    "run/test_prescient.py::test_a_run_that_diverges_in_training_is_not_judged",
    "run/test_prescient.py::test_a_users_own_environment",
    "run/test_prescient.py::test_grid_world_trains_from_random_episodes",
    "run/test_prescient.py::test_halving_and_keys_count_updates",
    "run/test_prescient.py::test_prescient_training_learns_both_contexts",
    "run/test_prescient.py::test_starts_are_uniform",
    "run/test_prescient.py::test_stopped_in_both_phases_equals_never_stopped[test_prescient:prescient_lcpo]",
    "run/test_prescient.py::test_the_training_sees_only_the_rows_of_the_evaluation",
    "run/test_run.py::test_a_group_goes_on_without_its_failed_member",
    "run/test_run.py::test_kill_and_resume",
    "run/test_run.py::test_vmapped_group_agrees_with_single_runs",
    "run/test_run.py::test_workers_die_with_their_parent",
    "run/test_segments.py::test_a_vmapped_group_stopped_and_resumed",
    "run/test_segments.py::test_stopped_at_every_chunk_equals_never_stopped[ring]",
    "run/test_segments.py::test_stopped_at_every_chunk_equals_never_stopped[sac]",
    "run/test_segments.py::test_stopped_at_every_chunk_equals_never_stopped[short-ring]",
    "run/test_stop.py::test_a_plain_worker_saves_too",
    "study/test_drawn.py::test_report_of_rivals_from_a_table_of_seeds",
    "study/test_ood_vs_cpd.py::test_a_study_without_runs_is_reproduced",
    "study/test_prescient_study.py::test_a_plan_written_here_runs_there",
    "study/test_prescient_study.py::test_compare_and_export_take_prescient_and_online_agents",
    "study/test_prescient_study.py::test_reproduce_prints_the_table_beside_the_papers",
    "study/test_studies.py::test_reproduce_runs_and_reports_a_study",
    "study/test_theorem.py::test_metrics_of_a_run_agree_with_its_final_table",
)

CORE = ("a2c", "lcpo", "ddqn", "tabular-a2c")
"""Agents of which `make test` sees every contract."""
CONTRACTS = tuple(
    f"contracts/test_contracts.py::test_{name}["
    for name in (
        "stopped_and_resumed_equals_never_stopped",
        "vmap_over_seeds_and_traced_fields_equals_a_loop",
    )
)


def waits(name: str) -> bool:
    """Whether the test of this node id, from the folder of tests on, is for `make test-slow`."""
    if name.startswith(CONTRACTS):
        return name.rpartition("[")[2].removesuffix("]") not in CORE
    return name in LATER or name.partition("[")[0] in LATER or name.partition("::")[0] in LATER
