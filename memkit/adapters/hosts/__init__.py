"""One small file per backend. Nothing is imported here: the PEFT host needs torch, the vLLM host httpx."""
