"""Training of the small manager: labelled choices → LoRA matrices and heads that `memkit.backbones.small` serves."""
