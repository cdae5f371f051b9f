"""The whole circle on one machine: a chatbot serves simulated users, what they leave behind trains an adapter, the
running chatbot takes it in, and is measurably better.

    chatbot.py   an app with one memory and many users at once
    habits.py    what the manager does now that it did not do before
    panel.py     users whose talk is never learned from: the same dialogues before and after
    story.py     serve → measure → retrain → swap while serving → measure → roll back
    refusal.py   what is told where the gate refused
    figures.py   the short table
    page.py      report.html
    command.py   `memkit-train demo`, which is also `memkit demo` where the trainer is installed
"""
