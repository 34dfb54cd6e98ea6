"""The faults that road_ray is held to, and the tests that show how each is survived.

A fault is passed when all its tests were seen to pass (``record.py``) and nothing stands in
``lacks``. ``tests/test_faults.py`` sees to it that every test named here exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    expected: str
    tests: tuple[str, ...] = ()
    lacks: str = ""


def _f(name: str, what: str, expected: str, *tests: str, lacks: str = "") -> Fault:
    return Fault(name, what, expected, tests, lacks)


_LOOP, _SAVED = "training/test_loop.py::", "training/checkpoint/test_atomic_commit.py::"
_FINE, _STUDENT = "recipes/train/test_finetune.py::", "recipes/train/test_distill.py::"
_GROUP, _ACTORS = "distributed/train/test_launch.py::", "distributed/teachers/test_client.py::"
_SWEEP = "distributed/tune/test_driver.py::"
_TEXT, _SQUAD = "data/readers/test_sentences.py::", "data/readers/test_squad.py::"
_TABLE = "data/readers/test_tables.py::"
_ROWS = "data/readers/test_bad_rows.py::test_it_is_refused_with_its_place"

_NODES = "chaos/test_nodes.py::"

FAULTS = (
    _f(
        *(
            "F01",
            "resume compared with a straight run",
            "weights, optimizer state, learning rate and order are bit-equal",
        ),
        f"{_LOOP}test_a_resumed_run_equals_the_straight_one_bit_for_bit",
        f"{_FINE}test_sigterm_then_the_same_command_gives_the_very_same_weights",
    ),
    _f(
        *(
            "F02",
            "the same in every stage",
            "bit-equal in pre-training, multi-task training and distillation",
        ),
        "recipes/pretraining/test_pretrain.py::test_a_run_goes_on_from_its_checkpoint",
        "recipes/train/test_supervised.py::test_a_stopped_run_goes_on_to_the_very_same_weights",
        "data/test_mixing.py::test_resuming_in_the_middle_equals_going_straight",
    ),
    _f(
        *("F03", "two workers, resumed", "bit-equal"),
        "chaos/test_survival.py::test_a_killed_worker_costs_time_and_changes_nothing",
    ),
    _f(
        *(
            "F04",
            "another number of workers on resuming",
            "the same samples; without dropout, which each worker draws, weights equal to rounding",
        ),
        "data/test_batching.py::test_the_workers_tile_the_global_batch_with_its_noise",
        "journeys/test_on_ray.py::test_two_workers_learn_as_one_process_does",
        "chaos/test_survival.py::test_a_stopped_group_goes_on_alone",
    ),
    _f(
        *(
            "F05",
            "a multi-task mixture stopped anywhere",
            "the draws of data sets continue unchanged",
        ),
        "data/test_mixing.py::test_resuming_in_the_middle_equals_going_straight",
        "data/test_mixing.py::test_draws_depend_on_seed_and_step_alone",
    ),
    _f(
        *("F06", "a stop at the very end of an epoch", "the next epoch is complete"),
        "data/test_batching.py::test_a_stream_goes_through_all_rows_epoch_after_epoch",
        "data/test_batching.py::test_a_batch_is_a_function_of_its_number",
    ),
    _f(
        *("F07", "data changed since the checkpoint", "refused with the old and the new value"),
        f"{_LOOP}test_a_changed_identity_is_refused_and_nothing_is_lost",
        "data/features/test_examples_and_features.py::test_the_fingerprint_sees_tokens_bounds_segments_and_gold",
        "recipes/pretraining/test_pretrain.py::test_another_text_of_the_same_name_and_size_is_another_corpus",
    ),
    _f(
        *(
            "F08",
            "SIGKILL of worker 1",
            "the group restarts; the result is that of an undisturbed run",
        ),
        f"{_GROUP}TestCluster::test_a_worker_that_dies_is_told_and_replaced_with_its_group",
        "distributed/train/test_worker_group.py::test_deaths_are_no_end_as_long_as_the_run_gets_further",
        "chaos/test_survival.py::test_a_killed_worker_costs_time_and_changes_nothing",
    ),
    _f(
        *("F09", "SIGKILL of worker 0", "the same"),
        "chaos/test_survival.py::test_a_killed_worker_costs_time_and_changes_nothing",
    ),
    _f(
        *(
            "F10",
            "SIGKILL while a checkpoint is written",
            "the previous one is used; no file is left over",
        ),
        f"{_SAVED}test_a_kill_in_the_midst_of_writing_costs_nothing",
    ),
    _f(
        *("F11", "a worker that hangs (SIGSTOP)", "the message names its rank; the group restarts"),
        f"{_GROUP}TestCluster::test_a_worker_that_hangs_is_named_and_ended",
    ),
    _f(
        *(
            "F12",
            "SIGTERM and Ctrl-C to the driver, once and twice",
            "saves, exits with code 6 and prints the command that resumes",
        ),
        f"{_GROUP}TestCluster::test_a_signal_to_the_driver_reaches_the_loops_of_all_workers",
        f"{_GROUP}TestCluster::test_a_signal_stops_runs_side_by_side_also_those_not_begun",
        f"{_LOOP}test_sigterm_saves_and_tells_the_way_on",
        "training/test_stop_request.py::test_a_second_signal_stops_at_once",
        "cli/test_app.py::test_a_stop_outside_the_loop_is_resumable",
    ),
    _f(
        *(
            "F13",
            "SIGKILL of the driver",
            "the same command resumes; no process is left after a minute",
        ),
        "chaos/test_survival.py::test_a_killed_driver_leaves_no_orphans_and_a_run_to_go_on_with",
    ),
    _f(
        *("F14", "loss of a node", "continues with fewer workers"),
        f"{_NODES}test_a_lost_node_is_done_without_and_a_new_one_taken",
    ),
    _f(
        *("F15", "a node joins", "grows at the next check"),
        f"{_NODES}test_a_lost_node_is_done_without_and_a_new_one_taken",
    ),
    _f(
        *("F16", "notice of preemption", "saves a checkpoint in time, then restarts"),
        "training/test_stop_request.py::test_a_notice_saves_at_once_and_then_every_few_seconds",
        "distributed/train/test_preemption.py::test_the_notice_is_passed_on_once_as_a_preemption",
        f"{_NODES}test_a_drained_node_costs_seconds_and_counts_as_no_failure",
    ),
    _f(
        *("F17", "network partition", "detected within 60 s; continues without the lost node"),
        "chaos/test_hosts.py::test_a_host_that_is_cut_off_is_done_without",
    ),
    _f(
        *(
            "F18",
            "a worker killed for memory",
            "the message names the rank; out of memory in torch also the batch",
        ),
        f"{_GROUP}TestCluster::test_a_worker_that_dies_is_told_and_replaced_with_its_group",
        "distributed/train/test_worker_group.py::test_a_worker_that_failed_is_told_with_what_to_do",
        "training/monitoring/test_out_of_memory.py::test_an_allocation_that_fails_names_what_was_worked_on",
    ),
    _f(
        *(
            "F19",
            "a teacher dies during a request",
            "the request is repeated; logits are identical, weights bit-equal",
        ),
        f"{_ACTORS}test_a_teacher_killed_in_mid_stream_changes_nothing",
        "journeys/test_on_ray.py::test_a_killed_teacher_costs_time_and_changes_nothing",
    ),
    _f(
        *("F20", "a teacher hangs", "replaced after the time-out"),
        f"{_ACTORS}test_a_frozen_teacher_is_replaced_and_costs_the_others_no_time",
    ),
    _f(
        *(
            "F21",
            "a teacher cannot be restarted",
            "the run stops and names it; it never continues with two of three",
        ),
        f"{_ACTORS}test_a_teacher_that_cannot_come_back_stops_the_run",
        "distributed/teachers/test_pool.py::test_a_teacher_that_does_not_load_is_named_at_the_start",
    ),
    _f(
        *(
            "F22",
            "missing resources",
            "an error within 10 s with the requested and the available amounts",
        ),
        f"{_GROUP}TestCluster::test_more_workers_than_room_is_said_at_once",
        "distributed/teachers/test_pool.py::test_teachers_without_a_place_fail_at_once",
        "distributed/test_resource_estimate.py::test_what_does_not_fit_is_told_with_asked_and_available",
    ),
    _f(
        *(
            "F23",
            "SIGKILL of a sweep's driver",
            "no finished trial is lost or repeated; no process is left",
        ),
        f"{_SWEEP}test_a_driver_killed_three_times_loses_and_repeats_nothing",
        "distributed/tune/test_one_driver_at_a_time.py::test_trials_that_outlive_their_driver_are_waited_for",
        "distributed/tune/test_study_storage.py::test_two_sweeps_of_one_name_in_one_database_are_refused",
        "recipes/sweep/test_sweep.py::test_a_second_start_of_the_same_sweep_is_refused",
    ),
    _f(
        *("F24", "a trial that crashes, is NaN or hangs", "fails with its reason"),
        f"{_SWEEP}test_a_driver_killed_three_times_loses_and_repeats_nothing",
        "distributed/tune/test_trial_actor.py::test_an_error_is_a_failed_trial_with_its_reason",
        "distributed/tune/test_trial_actor.py::test_a_figure_that_is_no_number_never_wins",
        "distributed/tune/test_trial_actor.py::test_a_trial_that_hung_is_not_tried_again",
    ),
    _f(
        *("F25", "truncated state of a sweep", "goes on, or is named"),
        f"{_SWEEP}test_a_driver_killed_three_times_loses_and_repeats_nothing",
        "distributed/tune/test_study.py::test_a_damaged_study_is_named_and_nothing_is_changed",
        "distributed/tune/test_study.py::test_a_torn_last_line_and_a_lock_of_a_killed_process_do_no_harm",
        "distributed/tune/test_study.py::test_a_damaged_record_is_made_again_from_the_study",
    ),
    _f(
        *(
            "F26",
            "full disk, file size limit",
            "an error with path and cause; the old checkpoint loads",
        ),
        f"{_SAVED}test_a_full_disk_keeps_the_old_checkpoint",
        f"{_SAVED}test_a_file_size_limit_keeps_the_old_checkpoint",
        f"{_FINE}TestMistakes::test_on_a_full_disk",
    ),
    _f(
        *("F27", "a directory that cannot be written", "an error before the first step"),
        f"{_SAVED}test_a_read_only_file_system_is_refused_at_the_start",
        "recipes/run_directory/test_run_lock.py::test_a_file_in_its_place_is_named",
    ),
    _f(
        *(
            "F28",
            "the newest checkpoint is damaged",
            "an older one is used; training never restarts from scratch",
        ),
        f"{_SAVED}test_a_damaged_file_is_seen_and_the_older_one_taken",
        f"{_SAVED}test_every_flipped_bit_is_seen",
        f"{_SAVED}test_all_damaged_stops_instead_of_starting_afresh",
        f"{_FINE}test_a_damaged_checkpoint_is_passed_over",
    ),
    _f(
        *("F29", "damaged records of a run", "named with the file or the line"),
        "recipes/run_directory/test_run.py::test_damaged_metrics_are_named",
        "training/monitoring/test_metrics_journal.py::test_a_torn_last_line_is_forgotten",
        "training/monitoring/test_metrics_journal.py::test_a_damaged_line_is_named_and_stays",
    ),
    _f(
        *(
            "F30",
            "a checkpoint of an older format",
            "loads, or the message names the version that reads it",
        ),
        f"{_SAVED}test_a_newer_format_is_named",
        "training/checkpoint/test_state.py::test_a_checkpoint_of_another_model_or_version_and_a_damaged_file_are_refused",
    ),
    _f(
        *(
            "F31",
            "a loss that is not finite",
            "stops before the update with code 5 and names the rows",
        ),
        f"{_LOOP}test_a_loss_that_is_not_finite_stops_before_the_update",
        f"{_LOOP}test_an_infinite_loss_with_a_finite_gradient_stops_too",
        f"{_FINE}test_a_loss_that_is_not_finite_ends_the_run_and_names_what_is_kept",
    ),
    _f(
        *(
            "F32",
            "a spike of the loss",
            "recorded with its rows, with a warning",
        ),
        "training/optimization/test_loss_guard.py::test_a_loss_a_thousand_times_as_large_is_seen_and_no_other",
        "training/optimization/test_loss_guard.py::test_a_spike_is_an_event_with_its_rows_and_a_quiet_run_has_none",
        "training/optimization/test_loss_guard.py::test_a_run_that_was_stopped_amid_spikes_counts_on",
    ),
    _f(
        *("F33", "no rows", "an error that counts the dropped rows"),
        _ROWS,
        "data/corpus/test_build_corpus.py::test_an_empty_corpus_is_an_error_and_leaves_nothing",
    ),
    _f(
        *("F34", "missing columns", "an error with the expected, the found and the nearest name"),
        _ROWS,
        "data/corpus/test_documents.py::test_a_missing_column_is_named",
    ),
    _f(
        *("F35", "a label outside the set", "an error with file, line, value and allowed values"),
        "data/features/test_encode_examples.py::test_a_label_outside_the_set_is_named_with_its_line",
        "data/features/test_encode_examples.py::test_a_number_outside_the_range_is_named_with_its_line",
    ),
    _f(
        *(
            "F36",
            "rows that are too long",
            "truncated and counted; beyond the position table an error at load",
        ),
        "data/features/test_encode_examples.py::test_truncation_is_counted",
        "recipes/pretraining/test_pretrain.py::test_sizes_that_do_not_fit_are_refused",
    ),
    _f(
        *("F37", "more tokens than embeddings", "an error at load"),
        "data/test_tokenizer.py::test_a_tokenizer_larger_than_the_table_is_refused",
        "distillation/test_teacher_checks.py::test_more_token_ids_than_embeddings_are_refused",
    ),
    _f(
        *("F38", "a teacher with another tokenizer", "reads texts, never the student's ids"),
        "distillation/test_teacher_checks.py::test_a_tokenizer_with_two_ids_swapped_is_another_one",
        f"{_STUDENT}TestMistakes::test_states_of_a_teacher_with_another_tokenizer",
    ),
    _f(
        *("F39", "labels in another order", "matched by name; unknown names are refused"),
        "distillation/test_teacher_checks.py::test_labels_are_aligned_by_name_whatever_their_order_and_case",
        "distillation/test_teacher_checks.py::test_labels_of_other_names_are_refused_with_the_way_out",
        "distillation/ensemble/test_annotate.py::test_a_teacher_with_permuted_labels_is_aligned_by_name",
    ),
    _f(
        *("F40", "too few teachers, unexpected shapes", "refused, never broadcast"),
        f"{_STUDENT}TestMistakes::test_two_teachers_of_three",
        "distillation/test_losses.py::test_logits_are_never_broadcast",
        "distillation/ensemble/test_annotate.py::test_answers_of_different_shapes_are_never_mixed",
    ),
    _f(
        *("F41", "W, T and weights out of range", "an error with the allowed range"),
        "distillation/test_losses.py::test_a_temperature_without_signal_is_refused",
        "config/test_base.py::test_only_weights_between_0_and_1_are_taken",
        "distillation/test_weighting.py::test_weights_sum_to_the_number_of_teachers",
        "distillation/test_weighting.py::test_when_every_teacher_errs_the_named_choice_holds",
    ),
    _f(
        *("F42", "repeated ids, overlap of train and dev", "listed and counted"),
        _ROWS,
        "recipes/train/test_overlap.py::test_examples_in_both_train_and_dev_are_counted",
    ),
    _f(
        *("F43", "other encodings", "an error with file, line and byte; BOM and CRLF are accepted"),
        f"{_TABLE}test_a_file_that_cannot_be_read_is_named",
        f"{_TEXT}test_quotes_are_letters_and_unusual_line_separators_do_no_harm",
    ),
    _f(
        *("F44", "damaged data files", "an error with file and line"),
        f"{_TABLE}test_a_file_that_cannot_be_read_is_named",
        _ROWS,
    ),
    _f(
        *("F45", "answers at another place than stated", "moved and counted, or listed"),
        f"{_SQUAD}test_a_misplaced_answer_moves_to_the_nearest_place_and_is_counted",
        "data/readers/test_bad_rows.py::test_five_faults_are_listed",
        f"{_SQUAD}test_answers_of_an_impossible_question_are_dropped_and_counted",
        _ROWS,
    ),
    _f(
        *("F46", "weights of another model", "refused; never a randomly initialised model"),
        "models/test_load_weights.py::test_load_encoder_refuses_another_size",
        "models/test_load_weights.py::test_load_encoder_refuses_weights_that_are_not_those_of_the_configuration",
        f"{_LOOP}test_another_model_is_refused_with_its_first_odd_weight",
    ),
    _f(
        *("F47", "mistakes in a configuration", "all reported at once, each with its line"),
        "config/test_base.py::test_all_mistakes_are_told_together_from_top_to_bottom",
        "config/test_read.py::test_what_is_no_plain_mapping_is_refused",
        "config/test_read.py::test_values_follow_yaml_1_2",
        "config/test_strict_types.py::test_a_float_takes_scientific_text_and_whole_numbers",
    ),
    _f(
        *("F48", "two processes in one directory", "the second is refused"),
        "recipes/run_directory/test_run_lock.py::test_a_second_process_is_refused_until_the_lock_is_closed",
        f"{_FINE}test_a_run_in_use_is_refused",
    ),
    _f(
        *("F49", "the tracker cannot be reached", "training continues and no row is lost"),
        "training/monitoring/test_trackers.py::test_a_server_that_cannot_be_reached_costs_an_event_a_start_and_no_row",
        "training/monitoring/test_metrics_journal.py::test_a_failing_tracker_is_noted_once_and_no_row_is_lost",
    ),
    _f(
        *(
            "F50",
            "a job that fails, a cluster that is down, a wrong token",
            "an exit code and a hint",
        ),
        "distributed/jobs/test_job_client.py::test_following_gives_the_log_and_the_exit_code",
        "cli/test_submit.py::test_a_cluster_that_is_not_there_is_a_cluster_error",
        "distributed/test_cluster_check.py::test_another_token_and_another_version_are_problems",
    ),
    _f(
        *("F51", "random faults", "the weights equal those of an undisturbed run"),
        "chaos/test_soak.py::test_faults_at_random_change_no_weight_and_leave_nothing",
    ),
    _f(
        *("F52", "a hundred short runs", "nothing is left behind"),
        "chaos/test_leaks.py::test_a_hundred_short_runs_leave_nothing_behind",
    ),
    _f(
        *(
            "F53",
            "another evaluation in the same directory",
            "refused with the key; figures and predictions are kept",
        ),
        "recipes/run_directory/test_resume_contract.py::test_the_same_command_returns_resumes_or_refuses",
        "recipes/test_evaluate.py::test_evaluate_that_fails_keeps_the_earlier_result",
        "recipes/test_evaluate.py::test_evaluate_gives_each_model_and_split_a_directory",
    ),
    _f(
        *(
            "F54",
            "a file that a finished run read has changed",
            "evaluated again, or refused with the old and the new hash",
        ),
        "recipes/run_directory/test_input_files.py::test_finetune_refuses_to_give_figures_of_other_inputs",
        "recipes/run_directory/test_resume_contract.py::test_the_same_command_returns_resumes_or_refuses",
        "recipes/run_directory/test_input_files.py::test_distill_refuses_another_teacher",
        "recipes/test_evaluate.py::test_evaluate_runs_again_when_a_file_that_it_read_has_changed",
    ),
    _f(
        *(
            "F55",
            "files of a finished run deleted, cut or changed",
            "refused by name",
        ),
        "recipes/run_directory/test_manifest.py::test_a_damaged_file_of_a_finished_run_is_named",
        "recipes/run_directory/test_manifest.py::test_damaged_metrics_of_a_finished_run_are_named",
        "recipes/run_directory/test_resume_contract.py::test_the_same_command_returns_resumes_or_refuses",
        "recipes/run_directory/test_manifest.py::test_damaged_weights_of_a_finished_run_are_not_taken",
    ),
    _f(
        *(
            "F56",
            "records that are null, empty or of another type",
            "a typed error with the file",
        ),
        "system/test_json_file.py::test_read_json_refuses_what_is_no_object",
        "training/monitoring/test_metrics_journal.py::test_a_damaged_line_is_named_and_stays",
        "recipes/run_directory/test_model_record.py::test_a_damaged_record_of_a_model_is_named",
        "recipes/train/test_teacher_list.py::test_what_is_no_list_of_teachers_is_named",
        "recipes/run_directory/test_manifest.py::test_damaged_manifest_is_named",
        "recipes/run_directory/test_input_files.py::test_changed_inputs_names_a_damaged_record",
        "recipes/run_directory/test_run.py::test_finished_names_a_configuration_that_is_missing",
        "reporting/records/test_run_record.py::test_a_record_of_the_wrong_kind_is_told",
    ),
    _f(
        *(
            "F57",
            "the disk fills while the report is written",
            "the run is complete; the next call writes the report",
        ),
        "recipes/run_directory/test_run.py::test_a_run_on_a_disk_that_is_full_at_its_report_makes_it_later",
        "reporting/pages/test_page.py::test_a_page_that_finds_no_room_leaves_nothing",
    ),
    _f(
        *(
            "F58",
            "NaN or inf in weights or logits",
            "refused with the weight or task; no figure is reported",
        ),
        "models/test_load_weights.py::test_load_encoder_refuses_weights_that_are_not_those_of_the_configuration",
        "recipes/test_evaluate.py::test_evaluate_refuses_weights_that_are_not_finite",
        "evaluation/test_evaluate_split.py::test_answers_refuses_one_logit_that_is_not_finite_of_any_kind",
    ),
    _f(
        *(
            "F59",
            "config.json of another size than the weights",
            "refused by name",
        ),
        "models/test_load_weights.py::test_load_encoder_refuses_another_size",
        "models/test_load_weights.py::test_load_encoder_names_shards_that_are_absent_or_damaged",
        "recipes/test_evaluate.py::test_evaluate_refuses_a_model_with_fewer_layers_than_its_file_holds",
    ),
    _f(
        *(
            "F60",
            "a head with labels in another order or with other names",
            "matched by name, or refused with the line to paste",
        ),
        "recipes/test_evaluate.py::test_evaluate_finds_labels_by_name_or_is_told_which_is_which",
        "recipes/test_evaluate.py::test_evaluate_refuses_labels_that_are_not_those_of_the_task",
        "recipes/train/test_distill.py::test_teachers_with_labels_of_other_names_are_asked_with_a_label_map",
    ),
    _f(
        *(
            "F61",
            "a model directory that names code, kernels or other files",
            "refused before anything is loaded, whatever is answered",
        ),
        "data/model_files/test_remote_code.py::test_no_verb_runs_the_code_of_a_model_directory",
        "data/model_files/test_remote_code.py::test_read_config_refuses_fields_that_can_load_code",
        "data/model_files/test_remote_code.py::test_read_tokenizer_refuses_fields_that_can_load_other_files_or_code",
        "models/test_load_weights.py::test_load_stored_reads_nothing_else_in_the_directory",
    ),
    _f(
        *(
            "F62",
            "damaged config.json or tokenizer files, impossible values",
            "refused with file and field",
        ),
        "data/model_files/test_remote_code.py::test_damaged_files_are_refused_by_name",
        "data/model_files/test_remote_code.py::test_values_that_no_model_can_have_are_refused_by_name",
        "recipes/test_evaluate.py::test_evaluate_names_the_damaged_file_of_a_model",
    ),
    _f(
        *(
            "F63",
            "a damaged corpus, tokenizer or feature cache",
            "rebuilt to the same bytes, with a message",
        ),
        "data/corpus/test_build_corpus.py::test_a_damaged_corpus_is_built_again_to_the_same_bytes",
        "data/corpus/test_prepare_corpus.py::test_a_damaged_tokenizer_is_learnt_again",
        "data/corpus/test_prepare_corpus.py::test_token_ids_beyond_the_vocabulary_are_refused",
        "data/features/test_cache.py::test_a_damaged_file_is_made_anew",
    ),
    _f(
        *("F64", "duplicate columns or labels", "refused with their place"),
        f"{_TABLE}test_a_file_that_cannot_be_read_is_named",
        _ROWS,
        "data/readers/test_custom_dataset.py::test_labels_that_stand_twice_are_refused_with_their_line",
    ),
    _f(
        *(
            "F65",
            "names of data sets that are paths",
            "refused with their line; v1.2 and train are names",
        ),
        "data/readers/test_custom_dataset.py::test_a_name_that_is_no_name_is_refused_with_its_line",
        "data/readers/test_custom_dataset.py::test_one_command_fine_tunes_on_it",
    ),
    _f(
        *(
            "F66",
            "no home directory; a cache or root that cannot be used",
            "a typed error with the key, or a warning",
        ),
        "system/test_paths.py::test_without_a_home_the_cache_must_be_named",
        "system/test_paths.py::test_other_places_below_a_home_are_told_too",
        "system/test_paths.py::test_a_path_that_cannot_be_looked_at_is_told_with_its_key",
        "system/test_paths.py::test_a_cache_that_cannot_be_written_is_told",
    ),
    _f(
        *("F67", "20,000 malformed files and settings", "read, or a typed error"),
        "chaos/test_fuzz.py::test_every_sample_can_be_read",
        "chaos/test_fuzz.py::test_readers_of_data_sets",
        "chaos/test_fuzz.py::test_readers_of_corpora",
        "chaos/test_fuzz.py::test_settings_in_files",
        "chaos/test_fuzz.py::test_settings_in_a_line",
        "chaos/test_fuzz.py::test_values_of_yaml",
    ),
    _f(
        *(
            "F68",
            "a secret in an address of a configuration or sweep",
            "refused without repeating it, exit code 2",
        ),
        "chaos/test_secrets.py::test_an_address_with_a_key_is_refused_without_being_repeated",
        "chaos/test_secrets.py::test_a_sweep_over_an_address_with_a_key_is_refused_without_being_repeated",
        "chaos/test_secrets.py::test_a_record_that_holds_a_key_is_shown_without_it",
    ),
    _f(
        *(
            "F69",
            "sweep storage of another application, in memory, with unusual options",
            "refused; the database is unchanged",
        ),
        "distributed/tune/test_study_storage.py::test_a_database_of_another_application_is_refused_and_stays_as_it_is",
        "config/test_database_url.py::test_a_url_that_does_more_than_name_a_lasting_database_is_refused",
    ),
    _f(
        *("F70", "untracked secrets, a tracked link out of the tree", "they are not sent"),
        "distributed/jobs/test_working_dir.py::test_tracked_files_travel_as_they_lie_there",
        "distributed/jobs/test_working_dir.py::test_a_file_outside_of_the_tree_to_which_a_link_leads_is_not_sent",
    ),
    _f(
        *("F71", "unexpected files in a run directory", "left out by name, or a typed error"),
        "cli/test_runs.py::test_odd_files_of_a_run_are_left_out_or_named",
    ),
    _f(
        *("F72", "names and labels with line breaks, direction marks or markup", "shown as text"),
        "cli/test_runs.py::test_a_run_whose_name_breaks_lines_or_turns_text_is_listed_on_one_line",
        "reporting/test_model_card.py::test_text_of_others_is_text_in_the_card",
    ),
    _f(
        *("F73", "the clock jumps by an hour", "the same figures; no wait ends early"),
        "chaos/test_clock.py::test_only_these_modules_read_the_wall_clock",
        "chaos/test_clock.py::test_a_run_on_a_jumping_clock_stops_goes_on_and_ends_in_the_same_figures",
    ),
    _f(
        *(
            "F74",
            "first use of the embedded data by several processes, one killed",
            "unpacked completely or not at all",
        ),
        "data/test_miniature.py::test_a_killed_first_use_leaves_nothing_half_written",
    ),
    _f(
        *("F75", "a locale without UTF-8", "runs are listed and shown"),
        "cli/test_app.py::test_a_locale_without_utf8_shows_runs",
    ),
    _f(
        *(
            "F76",
            "damage to any file of a run, store, corpus, cache, model or sweep",
            "the same result, or an error that names the file",
        ),
        "chaos/test_mutations.py::test_a_damaged_file_changes_no_result_and_is_named",
    ),
    _f(
        *(
            "F77",
            "SIGKILL at any write of a run directory",
            "the same command gives the same model",
        ),
        "chaos/test_half_written.py::test_a_kill_at_any_write_costs_nothing_but_the_same_command",
    ),
    _f(
        *("F78", "init= of a run that is being written", "the complete model, or a typed error"),
        "chaos/test_half_written.py::test_a_run_that_is_being_written_is_whole_or_refused_as_init",
    ),
    _f(
        *(
            "F79",
            "changed records of a sweep",
            "detected by digest and named; a record is written again from the study",
        ),
        "distributed/tune/test_study.py::test_a_flipped_bit_of_a_record_is_seen_wherever_it_is",
        "distributed/tune/test_study.py::test_files_of_another_sweep_over_the_same_space_are_named",
        "distributed/tune/test_study.py::test_a_damaged_study_is_named_and_nothing_is_changed",
    ),
    _f(
        *(
            "F80",
            "a damaged table of answers, a kill or a full disk while teachers label",
            "named with what to delete; the labelling goes on where it was",
        ),
        "distillation/answers/test_teacher_tables.py::test_a_damaged_table_is_named_with_what_to_do",
        "distillation/answers/test_teacher_tables.py::test_what_a_killed_labelling_has_asked_is_not_asked_again",
        "distillation/answers/test_teacher_tables.py::test_a_full_disk_is_named_and_keeps_what_was_answered",
    ),
    _f(
        *(
            "F81",
            "a pre-training killed after its last step",
            "its figures come from its checkpoint",
        ),
        "recipes/pretraining/test_pretrain.py::test_a_run_killed_after_its_last_step_has_the_figures_of_its_checkpoint",
    ),
    _f(
        *(
            "F82",
            "a stopped trial whose cleanup takes too long or ends its process",
            "the next trial starts in another process",
        ),
        "distributed/tune/test_searcher.py::test_no_trial_is_lost_to_the_cleanup_of_a_stopped_one",
    ),
    _f(
        "F83",
        "a tokenizer that gives no token types, zero types or no template",
        "ids, segments, masks and logits are those of plain transformers",
        "data/features/test_equals_transformers.py::test_inputs_and_logits_are_those_of_plain_transformers",
    ),
    _f(
        "F84",
        "a model for questions trained with other windows than the default",
        "evaluate and predict take the windows of its training",
        "recipes/test_evaluate.py::test_windows_are_those_of_the_training_unless_they_are_named",
    ),
    _f(
        "F85",
        "a position table of any length, no or another padding token, a text without tokens",
        "runs, with the rows of plain transformers",
        "journeys/test_odd_tokenizers.py::test_rows_as_long_as_an_odd_position_table",
        "journeys/test_odd_tokenizers.py::test_a_tokenizer_without_a_padding_token",
        "journeys/test_odd_tokenizers.py::test_a_padding_id_that_configuration_and_tokenizer_give_differently",
        "journeys/test_odd_tokenizers.py::test_an_empty_text_is_a_row_of_a_tagger_and_of_a_model_without_template",
    ),
    _f(
        "F86",
        "a web server answers with a page, another range or nothing in the middle of a corpus",
        "asked again, then an error; nothing of the answer enters the corpus",
        "system/test_http_files.py::test_a_wrong_answer_is_asked_for_again",
        "system/test_http_files.py::test_a_server_that_stays_wrong_is_told",
        "system/test_http_files.py::test_a_shorter_file_is_no_end_of_the_text",
    ),
    _f(
        "F87",
        "several predictions with one output, killed at random",
        "one process's whole file, or a refusal",
        "inference/test_predict_file.py::test_of_processes_that_write_one_output_each_gives_it_whole_or_is_refused",
    ),
    _f(
        "F88",
        "a cluster that cannot be asked for a token: no answer, slow, reset, garbage, no dashboard",
        "refused, nothing is sent",
        "distributed/test_cluster_token.py::test_a_cluster_that_cannot_be_asked_is_refused",
        "distributed/test_cluster_token.py::test_a_head_without_a_dashboard_is_asked_itself",
    ),
    _f(
        "F89",
        "`road submit stop` with an empty name, a part of a path, a name of several runs",
        "nothing is stopped",
        "distributed/jobs/test_job_client.py::test_a_run_is_found_by_the_path_that_was_submitted_and_by_no_part_of_it",
        "distributed/jobs/test_job_client.py::test_an_empty_name_stops_nothing",
        "distributed/jobs/test_job_client.py::test_a_name_of_several_runs_is_refused_with_all_of_them",
    ),
    _f(
        "F90",
        "an exception of any kind in one of several runs, a run that does not end",
        "told at once; only what needs it is skipped, the other results are kept",
        f"{_GROUP}TestCluster::test_an_exception_of_any_kind_costs_no_other_result_and_is_told_at_once",
        f"{_GROUP}TestCluster::test_a_run_that_does_not_end_leaves_the_results_of_the_others",
        "experiment/test_run.py::test_a_bug_in_one_arm_costs_no_other_result_and_skips_what_needs_it",
    ),
    _f(
        "F91",
        "a page of another site, half-sent bodies, NaN and repeated fields at a server",
        "refused with the reason; other clients are answered",
        "distributed/serving/test_api.py::test_a_server_without_token_answers_pages_of_this_machine_only",
        "distributed/serving/test_api.py::test_a_refused_request_says_what_where_value_and_allowed",
        "distributed/serving/test_server.py::test_a_killed_server_of_one_process_leaves_its_port_and_nothing_else",
        "distributed/serving/test_server.py::test_replicas_have_no_token_and_show_no_metrics",
    ),
    _f(
        "F92",
        "a row of a worker that was torn, a report of preemption that fails",
        "no other row or notice is lost or told twice",
        "distributed/train/test_messages.py::test_rows_are_told_once_in_their_order_and_a_torn_one_is_none",
        "distributed/train/test_preemption.py::test_a_report_that_fails_is_repeated_with_the_time_that_is_left",
    ),
    _f(
        "F93",
        "a staged checkpoint of another host on a shared file system",
        "left alone for a day",
        f"{_SAVED}test_a_staged_directory_of_another_host_is_judged_by_its_age",
    ),
    _f(
        "F94",
        "a private key or token among the files of a model",
        "not sent to a hub",
        "inference/test_hub_upload.py::test_a_secret_in_a_file_of_the_model_is_refused",
        "inference/test_hub_upload.py::test_only_files_of_a_model_are_sent_and_others_on_request",
    ),
)
