"""The seams: protocols that users and tests may fill in with parts of their own: clock and ids, embedder, backbone."""
