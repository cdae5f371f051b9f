"""The ladder from logs to an adapter: sft, then kto or dpo, then offline. Each is one file with one `train`."""
