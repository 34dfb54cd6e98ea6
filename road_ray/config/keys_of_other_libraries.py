"""Names of settings in transformers' Trainer and in PyTorch, for the remedy of an unknown key."""

# The last part of our key, by the name that the same setting has elsewhere.
NAMES_ELSEWHERE = {
    "learning_rate": "peak_lr",
    "lr": "peak_lr",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "per_device_train_batch_size": "batch_size",
    "gradient_accumulation_steps": "passes",
    "max_seq_length": "max_length_tokens",
    "max_length": "max_length_tokens",
    "warmup_ratio": "warmup_fraction",
    "model_name_or_path": "init",
    "output_dir": "run_dir",
}
