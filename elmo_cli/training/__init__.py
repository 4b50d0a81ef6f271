"""What every training run shares: its folder, its log, its reporter and files of tensors."""
