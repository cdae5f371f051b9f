"""Who is to be praised or blamed: from what users said of answers to the decisions behind them, and to rows."""
