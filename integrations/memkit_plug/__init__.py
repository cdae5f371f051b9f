"""What the plugs share: a chat's two moments (recall before, learn after) and a bank's memories as named files."""
