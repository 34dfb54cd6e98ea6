"""Parts that several pre-training objectives share: corruption, generators, detection, sampling."""
