"""As much of gfootball as the bridge uses, with its names and arguments; it plays nothing."""
