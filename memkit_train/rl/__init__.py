"""Reinforcement learning on played conversations: one policy gradient, several ways to spend generations.

    algorithms/    from scored episodes to rows: one algorithm a file
    engines/       who holds the model and trains one stage: one engine a file
    run.py         polish(…): stages, gates between them, the best checkpoint, resume
    settings.py    the `online:` section of a configuration
    talks.py       conversations with questions, from worlds and from logs; since when an answer holds
    learner.py     the model under training and the engine that decodes with it, over the same tensors
    acting.py      the backbone that policies act through: frozen roles are greedy and cached; time shares
    pool.py        states to decide from, played by the policy of the moment
    decisions.py   grpo and ppo on single decisions (Memory-R1's manager)
    answering.py   grpo on answers with distillation (Memory-R1's answer agent)
    whole.py       trajectory grpo, and logo: whole conversations plus rerolled sessions (Memory-R2)
    source.py      what RowTrainer asks for rows; the same rows are sent once
    vitals.py      signs of collapse
    judge.py       validation, best checkpoint, early stop

An episode is a sequence of independent prompts: the bank is rendered anew before every decision, so what is trained on
is what the deployed policy sees. Decoding, grammar, parsing, guards, retrieval and log-probs are the runtime's.
"""
