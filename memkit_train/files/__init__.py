"""What lies on disk beside a run: its folder, its rows, and the files of other people."""
