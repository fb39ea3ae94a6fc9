"""A model upstream that says what it is told to, over real HTTP or without."""
