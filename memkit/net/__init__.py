"""HTTP to a configured endpoint: which addresses may be reached, with which secrets, for how long. Nothing here
runs unless the user named an endpoint, and nothing here knows what a memory or a model is."""
