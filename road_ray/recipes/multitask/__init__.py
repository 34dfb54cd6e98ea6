"""Multi-task pre-training: data sets drawn at random, the gradient averaged over their passes."""
