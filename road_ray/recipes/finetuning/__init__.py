"""Fine-tuning: configuration of ``road finetune`` and ``road teachers``, and of ``distill``."""
