"""What `road` does besides running recipes: one file a command or family of them."""
