"""The worlds of the contract, beside those of the demo."""
