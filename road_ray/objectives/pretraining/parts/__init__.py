"""Parts that several pre-training objectives share: masked input, generator, detection."""
