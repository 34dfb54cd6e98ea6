"""Fine-tuning: one model (``finetune.py``), many seeds or data sets (``many.py``), teachers."""
